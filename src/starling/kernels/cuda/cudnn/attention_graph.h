#pragma once

#include "starling/kernels/cuda/cudnn/graph.h"
#include "starling/kernels/cuda/device/attention.h"
#include "starling/kernels/cuda/library_attention.h"

namespace starling::cuda {

// Graph of attention's forward or backward pass, in the form that cuDNN's engines without scores in memory know, and
// its tensors: forward q, k, v, y, lse; backward q, k, v, y, dy, lse, dq, dk, dv, then the scratch.
struct AttentionGraph {
  OperationGraph graph{};
  std::vector<OperationGraph::Tensor> tensors{};
  std::vector<std::size_t> scratch{};  // bytes of the tensors that the graph keeps in scratch
};

void describe_attention(AttentionPass pass, const device::Attention& attention, cudnnDataType_t type,
                        AttentionGraph& made);

}  // namespace starling::cuda
