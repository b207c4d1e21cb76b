"""The workflows of GitHub Actions: their form, what they may do, and that what they call is there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
import yaml
from labels import load_labels
from labels import main as apply_labels
from pydantic import ValidationError
from release import NOTES

from cpuwheels.cli.main import cli, main
from cpuwheels.config.credentials import is_credential
from cpuwheels.config.matrix import load_matrix
from layout import ROOT

RUNNERS = re.compile(r"ubuntu-\d\d\.04(-arm)?|macos-\d\d")


PIN = re.compile(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}")
FILES = sorted((ROOT / ".github").rglob("*.yml"))
WORKFLOWS = [path for path in FILES if path.parent.name == "workflows"]
FORMS = [path for path in FILES if path.parent.name == "ISSUE_TEMPLATE" and path.stem != "config"]
LABELS = load_labels()
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def is_valid(path: Path, schema: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def steps_of(path: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]


def runs_ours(step: dict[str, Any]) -> bool:
    """Return whether a step runs something of this repository, and needs a checkout for it."""
    return ".ci/" in step.get("run", "")


def sessions() -> set[str]:
    """Return the names of the sessions as noxfile.py has them, with those of each target."""
    text = (ROOT / "noxfile.py").read_text()
    named = re.findall(r'^_command\("([\w-]+)"|name="([\w-]+)"|^def (\w+)\(session', text, re.MULTILINE)
    names = {name for found in named for name in found if name}
    return names | {f"build-{target.id}" for target in load_matrix(ROOT).targets}


@pytest.fixture
def workflow(project_root: Path) -> Path:
    return project_root / ".github" / "workflows" / "nightly.yml"


def schema_of(path: Path) -> str:
    """Return the name of the schema of a file below .github/."""
    if path in FORMS:
        return "github-issue-forms"
    return {"workflows": "github-workflows", "ISSUE_TEMPLATE": "github-issue-config"}.get(path.parent.name, path.stem)


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "labels" or path in WORKFLOWS], ids=str)
def test_github_knows_all_of_it(path: Path) -> None:
    done = is_valid(path, schema_of(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_citation_is_one(tmp_path: Path) -> None:
    assert is_valid(ROOT / "CITATION.cff", "citation-file-format").returncode == 0
    broken = tmp_path / "CITATION.cff"
    broken.write_text((ROOT / "CITATION.cff").read_text().replace("authors:", "writers:"))
    assert is_valid(broken, "citation-file-format").returncode != 0


@pytest.mark.parametrize(
    ("name", "schema", "right", "wrong"),
    [
        ("workflows/nightly.yml", "github-workflows", "runs-on: ubuntu-24.04", "runs_on: ubuntu-24.04"),
        ("dependabot.yml", "dependabot", "interval: weekly", "interval: now and then"),
        ("ISSUE_TEMPLATE/build.yml", "github-issue-forms", "type: textarea", "type: text"),
        ("ISSUE_TEMPLATE/config.yml", "github-issue-config", "url: https:", "address: https:"),
    ],
)
def test_a_broken_one_is_found(tmp_path: Path, name: str, schema: str, right: str, wrong: str) -> None:
    text = (ROOT / ".github" / name).read_text()
    assert right in text
    broken = tmp_path / "broken.yml"
    broken.write_text(text.replace(right, wrong))
    assert is_valid(broken, schema).returncode != 0


@each_workflow
def test_every_action_is_pinned_by_its_hash_with_its_version_as_a_comment(path: Path) -> None:
    used = [step["uses"] for step in steps_of(path) if "uses" in step]
    assert used
    assert [action for action in used if not PIN.fullmatch(action)] == []
    lines = [line for line in path.read_text().splitlines() if re.search(r"\buses:", line)]
    assert len(lines) == len(used)
    assert [line for line in lines if not re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []


def test_an_action_has_one_pin() -> None:
    """A part of an action (actions/cache/save) is in the same repository as the whole."""
    pins: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for action, pin in re.findall(r"uses: ([\w.-]+/[\w.-]+)[\w./-]*@(.*)", path.read_text()):
            pins.setdefault(action, set()).add(pin)
    assert {action: found for action, found in pins.items() if len(found) > 1} == {}


@each_workflow
def test_it_may_read_the_repository_and_nothing_else(path: Path) -> None:
    found = yaml.safe_load(path.read_text())
    assert found["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in found["jobs"].items() if "permissions" in job}
    published = {
        "nightly": {"publish": {"contents": "read", "id-token": "write", "attestations": "write"}},
        "docs": {"deploy": {"pages": "write", "id-token": "write"}},
        "labels": {"labels": {"contents": "read", "issues": "write"}},
        "release": {
            "sign": {"contents": "read", "id-token": "write"},
            "pypi": {"id-token": "write"},
            "page": {"contents": "write"},
        },
    }
    assert more == published.get(path.stem, {})
    assert "pull_request_target" not in found[True]  # YAML takes "on" for a truth value
    checkouts = [step for step in steps_of(path) if "actions/checkout@" in step.get("uses", "")]
    running = [name for name, job in found["jobs"].items() if any(runs_ours(step) for step in job["steps"])]
    assert [step["with"]["persist-credentials"] for step in checkouts] == [False] * len(running)


@each_workflow
def test_it_ends_in_time_and_does_not_run_beside_itself(path: Path) -> None:
    found = yaml.safe_load(path.read_text())
    assert found["concurrency"]["group"].startswith(found["name"])
    assert all(0 < job["timeout-minutes"] <= 360 for job in found["jobs"].values())
    assert path.stem == found["name"]


@each_workflow
def test_the_sessions_that_it_runs_are_there(path: Path) -> None:
    lines = [step["run"] for step in steps_of(path) if "run" in step]
    called = {name for line in lines for name in re.findall(r"nox -s ([\w-]+)", line)}
    assert called <= sessions()
    assert {
        name for line in lines for name in re.findall(r"\.ci/\w+(?:\.py)?", line) if not (ROOT / name).is_file()
    } == set()
    assert called or lines == ['.ci/run --base "$BASE"']


def test_the_full_workflow_runs_each_job_on_its_own_schedule() -> None:
    found = yaml.safe_load((ROOT / ".github" / "workflows" / "full.yml").read_text())
    crons = {each["cron"] for each in found[True]["schedule"]}
    left_out = {name: re.findall(r"!= '(.*)'", job["if"]) for name, job in found["jobs"].items()}
    assert sorted(cron for each in left_out.values() for cron in each) == sorted(crons)
    assert len(crons) == len(left_out) == 2


def test_what_it_calls_has_the_options_that_it_gives(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    lines = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    found = [re.search(r"nox -s (\S+) -- (.*)", line, re.DOTALL) for line in lines]
    assert [match[1] for match in found if match] == ["matrix", "nightly", "verify-provenance", "nightly"]
    for match in filter(None, found):
        known = {name for option in cli.commands[match[1]].params for name in option.opts} | {"--help"}
        given = {
            word for word in shlex.split(match[2].replace("\\\n", " ").partition(')"')[0]) if word.startswith("--")
        }
        assert given <= known


@each_workflow
def test_tools_are_installed_by_their_hashes(path: Path) -> None:
    """`.ci/nox` and `.ci/run` install nox from its lock; nox installs everything else from locks."""
    lines = "\n".join(step["run"] for step in steps_of(path) if "run" in step)
    assert not re.search(r"\b(uvx|pip3?|uv|npm|curl|wget|apt(-get)?)\b", lines)
    assert [step for step in steps_of(path) if "setup-uv" in step.get("uses", "")] == []
    for name in ("run", "nox"):
        script = (ROOT / ".ci" / name).read_text()
        installs = re.findall(r"pip\" install (.*(?:\\\n.*)*)", script)
        assert [one for one in installs if "--require-hashes" not in one or "--only-binary :all:" not in one] == []
    lock = (ROOT / "locks" / "nox.txt").read_text()
    pinned = re.findall(r"^(\S+)==\S+ .*\\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    assert {"nox", "uv"} <= set(pinned)
    assert len(pinned) == len(re.findall(r"^\w", lock, re.MULTILINE))


class TestNightly:
    """Building and publishing are apart: what runs upstream's code has nothing to gain."""

    @pytest.fixture
    def jobs(self, workflow: Path) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
        return found

    def test_what_builds_has_no_secret_no_identity_and_no_cache(self, jobs: dict[str, Any]) -> None:
        builds = [name for name, job in jobs.items() if "--build" in str(job)]
        assert builds == ["wheels"]
        for name in ("plan", "wheels"):
            assert "permissions" not in jobs[name]
            assert "secrets" not in str(jobs[name])
            assert "token" not in str(jobs[name]).lower()
            assert "actions/cache" not in str(jobs[name])
            variables = {
                *jobs[name].get("env", {}),
                *(key for step in jobs[name]["steps"] for key in step.get("env", {})),
            }
            assert [variable for variable in variables if is_credential(variable)] == []

    def test_what_publishes_builds_nothing(self, jobs: dict[str, Any]) -> None:
        publishers = [name for name, job in jobs.items() if "--publish" in str(job)]
        assert publishers == [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
        assert "--build" not in str(jobs["publish"])
        assert "secrets." not in str(jobs["publish"])  # its identity is of the moment
        sessions_of = re.findall(r"nox -s (\S+)", str(jobs["publish"]))
        assert sessions_of == ["verify-provenance", "nightly"]

    def test_what_publishes_signs_and_nobody_else_can(self, jobs: dict[str, Any]) -> None:
        signers = [name for name, job in jobs.items() if "--keyless" in str(job) or "--key" in str(job)]
        assert signers == ["publish"]
        assert [name for name, job in jobs.items() if "id-token" in str(job.get("permissions", ""))] == ["publish"]
        (line,) = (step["run"] for step in jobs["publish"]["steps"] if "--publish" in step.get("run", ""))
        assert "--keyless" in line.split()

    def test_both_are_told_the_same_commit_by_a_job_that_runs_no_code_of_upstream(self, jobs: dict[str, Any]) -> None:
        commit = "${{ needs.plan.outputs.commit }}"
        assert [jobs[name]["env"]["COMMIT"] for name in ("wheels", "publish")] == [commit, commit]
        for name in ("wheels", "publish"):
            (line,) = (step["run"] for step in jobs[name]["steps"] if "nox -s nightly" in step.get("run", ""))
            assert '--commit "$COMMIT"' in line
            assert '--target "${{ matrix.target }}"' in line
            assert "--since" not in line
        assert "^[0-9a-f]{40}$" in str(jobs["plan"])

    def test_credentials_come_after_the_tools_and_the_wheels(self, jobs: dict[str, Any]) -> None:
        steps = [step.get("uses", step.get("run", "")) for step in jobs["publish"]["steps"]]
        (credentials,) = (at for at, step in enumerate(steps) if "configure-aws-credentials" in step)
        assert ".ci/nox -s verify-provenance -- --help" in steps[:credentials]
        assert any("download-artifact" in step for step in steps[:credentials])
        (attests,) = (at for at, step in enumerate(steps) if "attest-build-provenance" in step)
        (publishes,) = (at for at, step in enumerate(steps) if "nox -s nightly" in step)
        assert credentials < publishes < attests

    def test_what_is_built_is_locked(self, jobs: dict[str, Any]) -> None:
        (line,) = (step["run"] for step in jobs["wheels"]["steps"] if "nox -s" in step.get("run", ""))
        assert "--locked" in line.split()

    def test_nothing_of_an_input_is_part_of_a_script(self, workflow: Path) -> None:
        scripts = "\n".join(step["run"] for step in steps_of(workflow) if "run" in step)
        assert set(re.findall(r"\$\{\{ *(\S+) *\}\}", scripts)) <= {"matrix.target", "matrix.options"}


def test_its_matrix_is_that_of_the_targets(project_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--root", str(project_root), "matrix", "--github"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    rows = json.loads(out)["include"]
    ready = [target for target in load_matrix(project_root).targets if target.is_ready]
    assert [row["target"] for row in rows] == [target.id for target in ready]
    assert all(RUNNERS.fullmatch(row["runner"]) for row in rows)
    assert sorted(row["options"] for row in rows) == ["", *["--no-verify"] * (len(rows) - 1)]
    native = {row["target"]: row["runner"] for row in rows}
    assert native["arm"].endswith("-arm")
    assert native["macos"].startswith("macos")


class TestRelease:
    """Building, signing and publishing are apart."""

    @pytest.fixture
    def jobs(self, project_root: Path) -> dict[str, Any]:
        path = project_root / ".github" / "workflows" / "release.yml"
        found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
        return found

    def test_only_a_tag_starts_it(self, project_root: Path) -> None:
        path = project_root / ".github" / "workflows" / "release.yml"
        assert yaml.safe_load(path.read_text())[True] == {"push": {"tags": ["v*"]}}

    def test_what_builds_has_no_identity(self, jobs: dict[str, Any]) -> None:
        builders = [name for name, job in jobs.items() if ".ci/nox -s release" in str(job) and "--sign" not in str(job)]
        assert builders == ["build"]
        assert "permissions" not in jobs["build"]
        assert "token" not in str(jobs["build"]).lower()
        assert "secrets" not in str(jobs)

    def test_what_publishes_runs_nothing_of_ours_and_follows_the_signatures(self, jobs: dict[str, Any]) -> None:
        assert {name: job.get("needs") for name, job in jobs.items()} == {
            "build": None,
            "sign": "build",
            "pypi": "sign",
            "page": ["sign", "pypi"],
        }
        for name in ("pypi", "page"):
            assert not any(map(runs_ours, jobs[name]["steps"]))
            assert not [step for step in jobs[name]["steps"] if "actions/checkout@" in step.get("uses", "")]

    def test_pypi_trusts_the_workflow_and_nobody_has_a_password(self, jobs: dict[str, Any]) -> None:
        assert jobs["pypi"]["environment"]["name"] == "pypi"
        (upload,) = (step for step in jobs["pypi"]["steps"] if "pypi-publish@" in step.get("uses", ""))
        assert upload["with"] == {"packages-dir": "upload"}

    def test_its_options_are_there(self, jobs: dict[str, Any]) -> None:
        words = {word for job in jobs.values() for step in job["steps"] for word in step.get("run", "").split()}
        script = (ROOT / ".ci" / "release.py").read_text()
        assert {"--sign", "--keyless"} <= words
        assert all(f'"{word}"' in script for word in ("--sign", "--keyless"))

    def test_the_page_has_what_a_release_leaves(self, jobs: dict[str, Any]) -> None:
        (line,) = (step["run"] for step in jobs["page"]["steps"] if "run" in step)
        assert NOTES in line
        assert 'gh release create "$TAG" --verify-tag' in line


@pytest.mark.parametrize("path", sorted((ROOT / ".github").glob("*TEMPLATE*/*.yml")), ids=lambda path: path.stem)
def test_what_a_form_refers_to_is_there(path: Path) -> None:
    text = path.read_text()
    named = set(re.findall(r"\.\./blob/main/([\w./-]+)", text)) | set(
        re.findall(r"(?<![/\w])(\w+\.md|docs/\w+(?:\.md)?)", text)
    )
    assert {name for name in named if not (ROOT / name).exists() and not (ROOT / "docs" / name).exists()} == set()
    commands = re.findall(r"`cpuwheels ([a-z][\w-]*)(?: (--[\w-]+))?", text)
    assert {name for name, _ in commands} <= set(cli.commands)
    for name, option in commands:
        assert not option or option in {one for param in cli.commands[name].params for one in param.opts}


class TestLabels:
    """What sets a label names one that is there, and the file says who sets it."""

    def test_each_has_a_name_of_its_own(self) -> None:
        names = [label.name.casefold() for label in LABELS]
        assert len(set(names)) == len(names) > 5

    def test_forms_set_labels_of_the_file_and_the_file_names_the_forms(self) -> None:
        set_by = {path.stem: set(yaml.safe_load(path.read_text())["labels"]) for path in FORMS}
        updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
        (set_by["dependabot"],) = ({*found} for found in {tuple(update["labels"]) for update in updates})
        listed = {who: {label.name for label in LABELS if who in label.set_by} for who in set_by}
        assert set_by == listed
        assert {who for label in LABELS for who in label.set_by} == {*set_by, "maintainer"}

    @pytest.mark.parametrize("wrong", ["colour: d73a4a", "color: red", "color: D73A4A", "color: d73a4a\n  by: x"])
    def test_a_wrong_file_is_refused(self, tmp_path: Path, wrong: str) -> None:
        text = (ROOT / ".github" / "labels.yml").read_text()
        assert "color: d73a4a" in text
        (tmp_path / "labels.yml").write_text(text.replace("color: d73a4a", wrong))
        with pytest.raises(ValidationError):
            load_labels(tmp_path / "labels.yml")

    def test_gh_is_asked_for_each(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        gh = tmp_path / "gh"
        gh.write_text('#!/bin/sh\nprintf "%s|" "$@" >> "$OUT"; echo >> "$OUT"; [ "$3" != "$BAD" ]\n')
        gh.chmod(0o755)
        out = tmp_path / "out"
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("OUT", str(out))
        assert apply_labels([]) == 0
        assert not out.exists(), "printed, and not run"
        assert apply_labels(["--apply"]) == 0
        assert out.read_text().splitlines() == [
            f"label|create|{label.name}|--color|{label.color}|--description|{label.description}|--force|"
            for label in LABELS
        ]
        monkeypatch.setenv("BAD", "question")
        assert apply_labels(["--apply"]) == 1
        assert "gh label create question" in capfd.readouterr().out


def test_each_target_has_its_night(
    project_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machines of GitHub remember nothing, so that the day says whose wheel is built a second time."""
    turns = []
    for day in range(1, 9):

        class Day(datetime):
            today = day

            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:
                return datetime(2026, 11, cls.today, 3, tzinfo=tz)

        monkeypatch.setattr("cpuwheels.cli.project.datetime", Day)
        with pytest.raises(SystemExit):
            main(["--root", str(project_root), "matrix", "--github"])
        rows = json.loads(capsys.readouterr().out)["include"]
        turns += [row["target"] for row in rows if row["options"] == ""]
    ready = [target.id for target in load_matrix(project_root).targets if target.is_ready]
    assert len(turns) == 8
    assert turns[:4] == turns[4:]
    assert sorted(turns[:4]) == sorted(ready)
