"""The benchmarks of speed, run small: what they print is complete and fits together. No figure's size is asserted."""

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from pagedlab.bench import answers, engine, memory, paging, scaling, startup, table, vllm_child, vllm_rounds
from pagedlab.bench import bound as bound_module
from pagedlab.bench.bound import FORMS, BoundOf
from pagedlab.bench.workloads import WORKLOADS, Workload, check_room
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.model.weights import load_model
from pagedlab.parity import near_ties

SMALL = Workload("small", "three prompts with a common start", (20, 25, 30), 4, shared=16)


@pytest.fixture
def small_workload(monkeypatch):
    monkeypatch.setitem(WORKLOADS, "a", SMALL)


@pytest.fixture(scope="module")
def scaled():
    return scaling.measure("tiny-random", batches=(1, 4), contexts=(32, 64), steps=1)


class TestWorkloads:
    def test_are_those_that_the_issue_names(self):
        lengths = {name: w.lengths for name, w in WORKLOADS.items()}
        assert len(lengths["a"]) == 1 and WORKLOADS["a"].new == 64
        assert len(lengths["b"]) == 16 and (min(lengths["b"]), max(lengths["b"])) == (32, 256)
        assert len(set(lengths["b"])) == 16 and WORKLOADS["b"].new == 32
        assert lengths["c"] == (528,) * 16 and (WORKLOADS["c"].shared, WORKLOADS["c"].new) == (512, 16)

    def test_prompts_share_exactly_what_they_say_and_differ_from_round_to_round(self):
        prompts = SMALL.prompts(1000, seed=0)
        assert [len(p) for p in prompts] == [20, 25, 30]
        assert prompts[0][:16] == prompts[1][:16] == prompts[2][:16] and prompts[0][16:20] != prompts[1][16:20]
        assert SMALL.prompts(1000, seed=0) == prompts and SMALL.prompts(1000, seed=1)[0][:16] != prompts[0][:16]


class TestEngine:
    def test_alone_it_gives_our_figures_and_the_bound(self, small_workload, capsys):
        result = engine.run(model="tiny-random", cases="a", rounds=2, against=None)
        case = result["cases"]["a"]
        assert len(case["seconds"]["pagedlab"]) == len(case["bound_seconds"]) == 2
        assert case["new_tokens"] == 12 and case["of_bound"] > 0 and case["times_faster"] == {}
        assert "ours, of that bound" in capsys.readouterr().out

    @pytest.mark.slow
    def test_against_transformers_both_of_its_ways_give_the_tokens_that_we_give(self, small_workload, capsys, tmp_path):
        out = tmp_path / "engine.json"
        engine.run(model="tiny-random", cases="a", rounds=1, against="transformers", json=True, out=out)
        result = json.loads(capsys.readouterr().out)
        assert result == json.loads(out.read_text())
        case = result["cases"]["a"]
        assert set(case["times_faster"]) == {"padded", "continuous"}
        assert case["same_answers"] == {"padded": "3 of 3", "continuous": "3 of 3"}

    @pytest.mark.parametrize(
        "wrong, sentence",
        [
            (dict(cases="x"), "cases is 'x'"),
            (dict(cases=""), "cases is ''"),
            (dict(rounds=0), "rounds is 0"),
            (dict(against="llama.cpp"), "against is 'llama.cpp'; allowed are transformers and vllm"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, wrong, sentence):
        with pytest.raises(PagedlabError, match=sentence):
            engine.measure(**{"model": "tiny-random", "cases": "a", "rounds": 1, "against": None} | wrong)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_bound_says_the_same_product(form):
    x, weight = torch.randn(5, 32), torch.randn(192, 32)
    y = FORMS[form](x, weight)
    if form == "W @ x.T":
        y = y.t()
    elif y.dim() == 3:
        y = y.transpose(0, 1).reshape(5, 192)
    torch.testing.assert_close(y, x @ weight.t())


def test_the_bound_counts_a_common_prompt_once():
    model, _ = load_model("tiny-random")
    bound = BoundOf(model, SMALL)
    assert len(bound.prefill_x["qkv"]) == 20 + 9 + 14 and len(bound.prefill_x["head"]) == 3
    assert [call[0].shape[2] for call in bound.prefill_attention.calls] == [20, 9, 14]
    measured = bound.measure()
    assert measured.decode_steps == 3 and measured.seconds > 3 * measured.decode_products


SIDES_OF_PAGING = {"paged": 2, "products": 2, "one block": 2}


def test_the_forms_of_the_bounds_attention_say_the_same():
    model, _ = load_model("tiny-random")
    attention = bound_module._Decode(model, [7, 40, 1])
    first, *others = (form(*attention.kv[1]) for form in (
        attention._products, attention._sdpa, lambda *kv: torch.stack(attention._one_by_one(*kv)), attention._ours,
    ))  # fmt: skip
    for other in others:
        torch.testing.assert_close(other, first, atol=1e-5, rtol=1e-4)


class TestPaging:
    def test_both_sides_compute_the_same(self, capsys):
        result = paging.measure("tiny-random", contexts=(20, 32), steps=2)
        assert set(result["contexts"]) == {"20", "32"}
        for at in result["contexts"].values():
            assert at["largest_difference_of_logits"] < 1e-4
            assert {name: len(values) for name, values in at["seconds"].items()} == SIDES_OF_PAGING
        print(paging._table(result))
        assert "paged costs" in capsys.readouterr().out

    def test_a_context_that_the_model_has_not_is_refused(self):
        with pytest.raises(PagedlabError, match="allowed are 1 to 510: tiny-random has room for 512 tokens"):
            paging.measure("tiny-random", contexts=(512,), steps=2)

    @pytest.mark.parametrize("most, contexts", [(8192, {"512", "1024"}), (1000, {"499", "998"})])
    def test_contexts_that_nobody_names_are_some_that_the_model_has(self, monkeypatch, most, contexts):
        llama, _ = load_model("tiny-random")
        config = dataclasses.replace(llama.config, max_model_len=most)
        model = SimpleNamespace(config=config)
        monkeypatch.setattr(paging, "load_model", lambda name: (model, None))
        monkeypatch.setattr(paging, "_at", lambda llama, context, steps: context)
        assert set(paging.measure("some", steps=2)["contexts"]) == contexts


class TestScaling:
    def test_every_point_and_every_share_is_there(self, scaled):
        assert {(p["batch"], p["context"]) for p in scaled["step_seconds"]} == {(1, 32), (1, 64), (4, 32), (4, 64)}
        assert [(s["batch"], s["recorded"]) for s in scaled["shares"]] == [(1, False), (1, True), (4, False), (4, True)]
        assert all(0 < s["scheduler"] < 1 and (s["recorder"] > 0 or not s["recorded"]) for s in scaled["shares"])

    def test_the_page_stands_alone(self, scaled, tmp_path):
        page = tmp_path / "folder" / "scaling.html"
        scaling.write_page(scaled, page)
        text = page.read_text()
        assert "context 64" in text and "<script src=" not in text and len(text) > 1_000_000

    def test_watching_changes_no_event(self):
        def events(watched):
            llm = LLM("tiny-random", record=True, num_gpu_blocks_override=20)
            llm.add_request("some text")
            if watched:
                watch = scaling.Stopwatch()
                watch.around(llm.scheduler, "schedule", "update_from_output")
                watch.around(llm.events, "emit", "scheduled", "written", "sampled")
            for _ in range(3):
                llm.step()
            return [(e.kind, e.source) for e in llm.trace.events]

        assert events(watched=True) == events(watched=False)


@pytest.mark.slow
def test_startup_times_every_program():
    result = startup.measure("tiny-random", rounds=1)
    assert set(result["medians"]) == set(startup.WORDS)
    assert all(len(times) == 1 for times in result["seconds"].values())
    assert "first token" in startup._table(result)


@pytest.mark.slow
def test_memory_sets_the_peak_against_weights_and_pool():
    result = memory.measure("tiny-random", steps=50)
    # Of a model this small, importing Triton has the higher peak; so the two are not compared here.
    assert result["peak_bytes"] > 0 and result["imports_bytes"] > 0
    assert result["weights_bytes"] and result["pool_bytes"] == 2 * 3 * 2 * 16 * 4 * 16 * memory.BLOCKS
    assert "growth in 50 decode steps" in memory._table(result)


def test_a_model_too_small_for_scaling_is_refused_and_told_what_it_takes(monkeypatch):
    monkeypatch.setattr(scaling, "LLM", lambda *_, **__: SimpleNamespace(
        max_model_len=80, executor=SimpleNamespace(model_config=SimpleNamespace(name="small"))))
    with pytest.raises(PagedlabError, match="small has room for 80 tokens; this takes a model of at least 84"):
        scaling.measure("small")


def test_a_model_too_small_for_a_ratio_of_memory_gets_none(monkeypatch):
    answers = iter([[1000], [900, 10, 10], [5, 5]])
    monkeypatch.setattr(memory, "_ask", lambda program: next(answers))
    result = memory.measure("tiny-random", steps=5)
    assert result["taken_over_weights_and_pool"] is None and "too small for a ratio" in memory._table(result)


def test_a_case_longer_than_the_model_allows_is_named_with_those_that_fit():
    check_room("ab", "tiny-random", 512)
    with pytest.raises(PagedlabError, match="Case c needs 544 tokens, and tiny-random has room for 512.*--cases ab"):
        check_room("abc", "tiny-random", 512)
    with pytest.raises(PagedlabError, match="Case a needs 80 tokens.* Take a larger model"):
        check_room("a", "small", 64)


class TestAnswers:
    """Whose answers count as the same: a near tie may fall either way, any other token is wrong."""

    @pytest.fixture
    def served(self):
        llm = LLM("tiny-random", device="cpu", dtype=torch.float32)
        prompts = SMALL.prompts(llm.executor.model_config.vocab_size, seed=0)
        outputs = llm.generate(prompts, SamplingParams(max_tokens=4, ignore_eos=True))
        return llm.executor.model, prompts, [output.outputs[0].token_ids for output in outputs]

    def test_logits_without_a_pool_have_the_engines_own_token_on_top(self, served):
        model, prompts, ours = served
        for prompt, answer in zip(prompts, ours, strict=True):
            tops = [int(answers.logits_after(model, prompt + answer[:i]).argmax()) for i in range(len(answer))]
            assert tops == answer

    @pytest.mark.parametrize("at", [0, 2])
    def test_a_near_tie_is_unlike_and_another_token_is_wrong(self, served, monkeypatch, at):
        model, prompts, ours = served
        logits = answers.logits_after(model, prompts[1] + ours[1][:at])
        second = int(logits.topk(2).indices[1])
        theirs = [list(answer) for answer in ours]
        theirs[1][at] = second
        assert answers.other_tokens(model, prompts, ours, ours) == (0, 0)
        assert answers.other_tokens(model, prompts, ours, theirs) == (1, 1)
        gap = float(logits.max() - logits[second])
        monkeypatch.setattr(near_ties, "TIE", gap * 1.01)
        assert answers.other_tokens(model, prompts, ours, theirs) == (1, 0)
        monkeypatch.setattr(near_ties, "TIE", gap * 0.99)
        assert answers.other_tokens(model, prompts, ours, theirs) == (1, 1)

    def test_an_answer_that_is_shorter_is_wrong(self, served):
        model, prompts, ours = served
        assert answers.other_tokens(model, prompts, ours, [ours[0][:-1], *ours[1:]]) == (1, 1)


class TestAgainstVLLM:
    def test_without_its_environment_one_sentence_says_what_makes_it(self, monkeypatch, tmp_path):
        monkeypatch.setattr(vllm_rounds.importlib.util, "find_spec", lambda name: None)
        monkeypatch.setattr(vllm_rounds, "ENVIRONMENT", tmp_path)
        monkeypatch.setattr(engine, "LLM", lambda *_, **__: pytest.fail("nothing is loaded before"))
        with pytest.raises(PagedlabError, match="^vLLM has an environment of its own.* run `make vllm`, then"):
            engine.measure("tiny-random", "a", 1, "vllm")

    @pytest.mark.parametrize(
        "says, sentence", [("", "it said nothing"), ("print('no such thing', file=sys.stderr)", "no such thing")]
    )
    def test_a_process_that_ends_is_an_error_with_its_last_line(self, tmp_path, says, sentence):
        python = tmp_path / "python"
        python.write_text(f"#!{sys.executable}\nimport sys\n{says}\n")
        python.chmod(0o755)
        model, _ = load_model("tiny-random")
        with pytest.raises(PagedlabError, match=f"^vLLM \\(eager\\) ended: {sentence}"):
            vllm_rounds.VLLM(python, tmp_path, "eager", [SMALL], model.config)

    def test_in_an_environment_without_vllm_the_child_says_so(self, monkeypatch):
        """The child's own program, in this Python, where an import of vllm fails."""
        monkeypatch.setitem(sys.modules, "vllm", None)
        answers = []
        vllm_child.serve(iter(['{"folder": "nowhere"}']), answers.append)
        assert len(answers) == 1 and answers[0]["error"].startswith("vLLM is not in this environment. Run `make vllm`")

    def test_the_pool_has_room_for_every_request_twice(self):
        config = load_model("tiny-random")[0].config
        per_token = 2 * config.num_layers * config.num_kv_heads * config.head_size * 4
        large = dataclasses.replace(SMALL, lengths=(1_000_000,) * 3, new=0)
        gib = vllm_rounds.gib_needed(large, config)
        assert (gib - 1) << 30 < 2 * 3_000_000 * per_token <= gib << 30


class TestTable:
    def test_the_readme_holds_what_the_raw_figures_give(self, root, tmp_path):
        """After a new measurement: python -m pagedlab.bench.table."""
        copy = tmp_path / "README.md"
        copy.write_text((root / "README.md").read_text())
        assert table.write(copy) is False

    def test_raw_figures_name_no_machine_and_no_path(self):
        for path in table.MEASURED.glob("*.json"):
            text = path.read_text()
            assert "/" not in text.replace("/s", ""), path.name

    def test_missing_figures_are_named(self, tmp_path):
        names = "engine --against transformers, engine --against vllm, labs, memory, paging, scaling, startup"
        with pytest.raises(PagedlabError, match=names):
            table.table(table.load(tmp_path))
        found = table.load()
        del found["paging"]
        assert "paging" in table.table(found).partition("Not measured yet:")[2]


@pytest.mark.parametrize("bench", [engine, memory, paging, scaling, startup], ids=lambda b: b.__name__.split(".")[-1])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "measure", lambda *_, **__: pytest.fail("measured"))
    (tmp_path / "file").touch()
    wrong = [{"out": tmp_path}, {"out": tmp_path / "file" / "x"}]
    for arguments in [*wrong, *[{"html": case["out"]} for case in wrong if bench is scaling]]:
        with pytest.raises(PagedlabError, match="cannot be written"):
            bench.run(**arguments)
    with pytest.raises(pytest.fail.Exception):
        bench.run(out=tmp_path / "new" / "x.json")
    assert not list((tmp_path / "new").iterdir())  # nothing empty is left


def test_the_doctor_that_startup_times_is_one_that_says_something(root):
    done = subprocess.run([sys.executable, *startup.DOCTOR], cwd=root, capture_output=True, text=True)
    assert done.stdout.startswith("pagedlab ") and "torch" in done.stdout


@pytest.mark.slow
def test_a_process_that_refuses_says_its_sentence_only():
    with pytest.raises(PagedlabError, match="^unknown model 'nope'"):
        memory.measure("nope", steps=1)
