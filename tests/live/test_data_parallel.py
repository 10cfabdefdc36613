"""The engines of one server, each watched at an address of its own: two of vLLM's schedulers, as the engine cores of a
data-parallel server have them. (Two whole engines: ``test_server.py``.)"""

import socket
import time

import pytest

from pagedlab.attach import attach
from pagedlab.parity import vllm_side
from pagedlab.watch.publish import Publisher, address_of

HEADER = {"max_model_len": 128, "max_num_seqs": 4, "max_num_batched_tokens": 64, "enable_caching": True}
HEADER |= {"num_blocks": 40, "block_size": 4}


@pytest.fixture(params=["tcp", "ipc"])
def address(request, tmp_path):
    if request.param == "ipc":
        return f"ipc://{tmp_path}/events"
    with socket.socket() as one, socket.socket() as two:  # two ports, one behind the other
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", one.getsockname()[1] + 1))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"


def scheduler(index):
    made = vllm_side.make_scheduler(HEADER)
    # As EngineCoreProc.run_engine_core does: the index says which engine it is, also where the rank says 0 of 1.
    made.vllm_config.parallel_config.data_parallel_index = index
    return made


def test_two_engines_of_a_server_are_followed_apart(address):
    schedulers = [scheduler(0), scheduler(1)]
    publishers = [Publisher(one, address) for one in schedulers]
    try:
        assert publishers[0].address == address != publishers[1].address
        make_request = vllm_side.request_maker(HEADER["block_size"], True)
        followers = [attach(publisher.address) for publisher in publishers]
        for i, one in enumerate(schedulers):
            one.add_request(make_request(f"of-engine-{i}", [i + 1] * 9, vllm_side.sampling_params(3)))
            output = one.schedule()
            one.update_from_output(output, vllm_side.model_output({f"of-engine-{i}": 7}))
        for i, follower in enumerate(followers):
            follower_waits(follower)
            assert [e.request_id for e in follower.trace.events if e.kind == "request_arrived"] == [f"of-engine-{i}"]
            follower.close()
    finally:
        for publisher in publishers:
            publisher.close()


def follower_waits(follower):
    end = time.monotonic() + 20
    while not follower.num_steps:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("endpoint", ["tcp://*:5557", "tcp://127.0.0.1:5558", "tcp://[::1]:6000", "tcp://127.0.0.1:0"])
@pytest.mark.parametrize("index", [0, 1, 7])
def test_the_rule_for_ports_is_vllms(endpoint, index):
    from vllm.distributed.kv_events import ZmqEventPublisher

    assert address_of(endpoint, index) == ZmqEventPublisher.offset_endpoint_port(endpoint, index)
