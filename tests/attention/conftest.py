import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))  # `batches` is shared with tests/kernels
torch.set_num_threads(1)  # tiny tensors: a second thread costs more than it brings
