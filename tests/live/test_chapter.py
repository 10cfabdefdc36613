"""Chapter 15 with vLLM in its kernel. (Beside a server: test_server.py.)"""

from chapter import its_live_part

STEPS = """
import json
before = lab.num_steps
lab.seek(before)
lab.forward(3)
names = sorted(lab.state.requests)
print(json.dumps({"steps": lab.num_steps - before, "engine": lab.trace.header["engine"], "names": names,
                  "held": sum(count > 0 for count in lab.state.ref_cnt)}))
"""


def test_the_chapter_opens_its_lab_over_a_vllm_of_its_own_and_steps_it():
    shown = its_live_part("", STEPS)
    assert shown["steps"] == 3 and shown["engine"].startswith("vLLM 0.32.0")
    assert shown["names"] == ["A", "B", "C", "D", "E"] and shown["held"] >= 5
