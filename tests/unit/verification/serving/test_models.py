from __future__ import annotations

import ast

from cpuwheels.verification.serving.models import CHUNK, MADE, Model
from cpuwheels.verification.serving.questions import TEXTS, TOKENS
from layout import ROOT

RESOURCES = ROOT / "src/cpuwheels/verification/serving/resources"


def constants(script: str) -> dict[str, ast.expr]:
    tree = ast.parse((RESOURCES / script).read_text())
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = node.value
    return found


def test_the_models_are_those_that_the_script_makes() -> None:
    made = constants("tiny_models.py")["MODELS"]
    assert isinstance(made, ast.Dict)
    assert [ast.literal_eval(key) for key in made.keys if key] == list(MADE)


def test_the_longest_prompt_has_several_chunks_and_blocks_and_is_longer_than_the_window() -> None:
    positions, window = (ast.literal_eval(constants("tiny_models.py")[name]) for name in ("POSITIONS", "WINDOW"))
    lengths, _ = TEXTS[False]
    longest = max(int(length) for length in lengths.split(","))  # a token for each character
    assert longest > 3 * CHUNK
    assert longest > 3 * 128 > window
    assert longest + TOKENS[False] < positions


def test_a_library_that_lacks_an_operator_cannot_serve_a_model() -> None:
    awq = MADE["awq"]
    assert awq.lacks({"_C::cpu_gemm_wna16", "_C::rms_norm"}) == ()
    assert awq.lacks({"_C::rms_norm"}) == ("_C::cpu_gemm_wna16",)
    assert Model().lacks(set()) == ()


def test_prompts_are_cut_into_chunks_but_for_a_model_that_sees_all_at_once() -> None:
    assert MADE["qwen3"].arguments == ("--max-num-batched-tokens", "128")
    assert MADE["bert"].arguments == ()
