"""A small C++ program, and what a compiled one needs of its system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

if TYPE_CHECKING:
    pass


SOURCE = r"""
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <chrono>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory_resource>
#include <numa.h>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <random>
#include <Python.h>

extern "C" double newer_math(double x) { return std::pow(x, 2.0) + std::exp2(x) + std::log2(x); }

extern "C" int waited() {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  auto start = std::chrono::steady_clock::now();
  condition.wait_for(lock, std::chrono::milliseconds(30), [] { return false; });
  (void)std::random_device("arc4random")();
  return (std::chrono::steady_clock::now() - start) / std::chrono::milliseconds(1);
}

extern "C" int sum_below(int n) {
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < n; ++i) sum += i;
  return sum;
}

extern "C" int caught() {
  int count = 0;
  try { throw std::runtime_error("own"); } catch (const std::exception&) { ++count; }
  try { (void)std::filesystem::file_size("/nowhere"); } catch (const std::system_error&) { ++count; }
  try { std::regex broken("("); } catch (const std::regex_error&) { ++count; }
  std::exception_ptr kept;
  std::thread thread([&] { try { throw 1; } catch (...) { kept = std::current_exception(); } });
  thread.join();
  try { std::rethrow_exception(kept); } catch (int) { ++count; }
  try { std::async(std::launch::async, []() -> int { throw std::bad_alloc(); }).get(); }
  catch (const std::bad_alloc&) { ++count; }
  return count;
}

extern "C" int says_hello() {
  std::pmr::string text("hello");
  double number = 0;
  std::from_chars("1.5", "1.5" + 3, number);
  std::cout << text << ' ' << number << ' ' << (numa_available() > -2) << std::endl;
  return PY_MAJOR_VERSION;
}
"""


def needed_versions(library: Path) -> set[str]:
    with library.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".gnu.version_r")
        assert isinstance(section, GNUVerNeedSection)
        return {version.name for _, versions in section.iter_versions() for version in versions}


def loose_symbols(library: Path) -> list[str]:
    with library.open("rb") as stream:
        elf = ELFFile(stream)
        table, versions = (elf.get_section_by_name(name) for name in (".dynsym", ".gnu.version"))
        assert isinstance(table, SymbolTableSection)
        assert isinstance(versions, GNUVerSymSection)
        return [
            symbol.name
            for number, symbol in enumerate(table.iter_symbols())
            if symbol["st_shndx"] == "SHN_UNDEF"
            and symbol["st_info"]["bind"] == "STB_GLOBAL"
            and isinstance(versions.get_symbol(number)["ndx"], str)
        ]
