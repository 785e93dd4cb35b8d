#pragma once

#include <map>
#include <string>
#include <vector>

#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/find_gradients.h"
#include "starling/graph/graph.h"
#include "starling/runtime/container.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist {

// Gradients of a program that travel in the wire form of a codec, and what the codec keeps of each of them: tensors of
// this rank, shared by all programs of a strategy.
class CodedGradients {
 public:
  CodedGradients(CodecChoice choice, int rank, int ranks);

  bool none() const { return choice_.none(); }
  const CodecChoice& choice() const { return choice_; }

  // Makes the states of these parameters, of which those of f32 are coded. Throws if a pattern of the choice matches
  // none of them. Collective: measures the world's costs where a codec asks for them.
  void begin(const std::vector<NamedTensor>& parameters, Comm& comm);

  // Puts a coded_reduce, which partition gives each rank's terms, after every dense gradient that an update reads; its
  // states are variables of the program. A guarded update that is skipped leaves them as they were. The gradient is
  // taken as the backward pass made it, times plain numbers (of accumulation): before clipping, which needs the sum.
  // Throws for a matrix that is named for factors and whose gradient is no product.
  // Products that travel as factors are marked to be computed whole on every rank, so that partition gathers both.
  graph::Graph rewrite(const graph::Graph& global, Symbol group);

  // Adds the states that programs name to their container.
  void bind(Container& container) const;

  int by_factors() const { return by_factors_; }  // gradients that travel so in a step

  // "codec.<parameter>.<state>", for checkpoints.
  std::vector<NamedTensor> tensors() const;
  // True if the tensor of that name is a rank's part of a sum.
  bool is_part(const std::string& name) const;
  // Change of the number of ranks: every rank's parts have become the sum over those of before; each takes its share.
  void share_out();

 private:
  struct Parameter {
    std::string name;
    Tensor tensor;
    std::vector<NamedTensor> states;
    CodecChoice choice;
    CodecPtr codec;      // null: none
    bool named = false;  // by a pattern
  };
  void expect_matches(const std::vector<NamedTensor>& parameters) const;
  bool needs_costs() const;
  const Parameter& of(const graph::Graph& graph, const UsedGradient& gradient);
  const Parameter& of(const Tensor& tensor, const std::string& name);
  graph::Graph with_factors(graph::Graph global, std::vector<UsedGradient>& gradients);
  graph::Graph with_coded(const graph::Graph& global, const std::vector<UsedGradient>& gradients, Symbol group);

  CodecChoice choice_;
  int rank_, ranks_;
  WorldCosts costs_;
  int by_factors_ = 0;
  std::vector<Parameter> parameters_;  // in the order of begin()
};

}  // namespace starling::dist
