"""JUnit XML, as CI servers read it: a suite for each library, a test case for each case."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from cpuwheels.verification.parity.results import EMULATED, WRONG

if TYPE_CHECKING:
    from cpuwheels.verification.parity.results import CaseResult, LibraryResult, Parity


def junit_xml(parity: Parity) -> bytes:
    """Return the document (the schema that Jenkins' xUnit plug-in publishes)."""
    root = ET.Element("testsuites", name=f"parity of {parity.wheel}", time=f"{parity.seconds:.3f}")
    for library in parity.libraries:
        _suite(root, parity, library)
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _suite(root: ET.Element, parity: Parity, library: LibraryResult) -> None:
    wrong = [case for case in library.cases if case.verdict in WRONG]
    known = [case for case in library.cases if case.verdict == "known"]
    crashed = [case for case in wrong if case.verdict == "crashed"]
    suite = ET.SubElement(
        root,
        "testsuite",
        name=library.name,
        time=f"{library.seconds:.3f}",
        tests=str(len(library.cases) + len(library.waived) + len(library.untested)),
        failures=str(len(wrong) - len(crashed) + len(library.untested)),
        errors=str(len(crashed)),
        skipped=str(len(library.waived) + len(known)),
    )
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="machine", value=parity.machine)
    if parity.onednn_limit:
        ET.SubElement(properties, "property", name="onednn_limit", value=parity.onednn_limit)
    if parity.emulated:
        ET.SubElement(properties, "property", name="emulated", value=EMULATED)
    for case in library.cases:
        _case(suite, library.name, case)
    for operator, reason in sorted(library.waived.items()):
        one = ET.SubElement(suite, "testcase", classname=f"{library.name}.{operator}", name=operator, time="0")
        ET.SubElement(one, "skipped", message=reason)
    for operator in library.untested:
        one = ET.SubElement(suite, "testcase", classname=f"{library.name}.{operator}", name=operator, time="0")
        ET.SubElement(one, "failure", message="neither a case nor a waiver")


def _case(suite: ET.Element, library: str, case: CaseResult) -> None:
    one = ET.SubElement(
        suite, "testcase", classname=f"{library}.{case.operators[0]}", name=case.name, time=f"{case.seconds:.6f}"
    )
    if case.verdict == "passed":
        return
    if case.verdict == "known":
        ET.SubElement(one, "skipped", message=f"known fault: {case.known}").text = "\n".join(case.problems)
        return
    kind = "error" if case.verdict == "crashed" else "failure"
    ET.SubElement(one, kind, message=case.problems[0] if case.problems else "").text = "\n".join(case.problems)
