#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/base/clock.h"
#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/find_gradients.h"
#include "starling/dist/codec/gradient_traffic.h"
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

  int by_factors() const;  // gradients that travel so in a step

  // Forms that are chosen again: number of choices that have changed some. Programs built before are then to be built
  // anew.
  std::int64_t version() const { return version_; }
  bool chooses_again() const { return ranks_ > 1 && every_ > 0; }
  // After every step, which waited so many seconds for exchanges since begin(). Collective where forms are chosen
  // again: ranks agree on what they have seen by one small all-reduce.
  void after_step(double waited);
  // Traffic of parameters whose gradients have travelled in a form of a codec, or whose form is chosen.
  std::vector<GradientTraffic> traffic() const;

  // "codec.<parameter>.<state>", for checkpoints.
  std::vector<NamedTensor> tensors() const;
  // After states were loaded. Collective where forms are chosen: what was kept leaves whatever is chosen now.
  void restored();
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
    CodecPtr codec;                              // null: none
    bool named = false;                          // by a pattern
    Tensor traffic{};                            // CodedTraffic of its coded_reduce
    std::optional<FactorShape> factors{};        // by which it travels
    double product_bytes = 0, factor_bytes = 0;  // of those
    std::optional<GradientFacts> facts{};        // of a gradient whose form is chosen, once a program has it
    GradientForm form = GradientForm::dense;     // then
    bool coded = false;                          // some program has coded it, and ranks may keep something of it
    double worst_error = 0;                      // of one_bit, mean over ranks, when it was looked at
  };
  void expect_matches(const std::vector<NamedTensor>& parameters) const;
  template <class F>
  bool any_codec(F&& asks) const;
  bool keeps(const Parameter& parameter) const;
  void count_factors();
  void choose_anew(double waited, double seconds);
  bool travels_uncoded(Parameter& own, const std::optional<FactorShape>& shape, graph::Value& gradient);
  Parameter& of(const graph::Graph& graph, const UsedGradient& gradient);
  Parameter& of(const Tensor& tensor, const std::string& name);
  graph::Graph with_factors(graph::Graph global, std::vector<UsedGradient>& gradients);
  graph::Graph with_coded(const graph::Graph& global, const std::vector<UsedGradient>& gradients, Symbol group);

  CodecChoice choice_;
  int rank_, ranks_;
  WorldCosts costs_;
  std::int64_t every_ = 0;  // steps between two choices; 0: none
  std::int64_t version_ = 0, steps_ = 0;
  std::unique_ptr<Comm> apart_;  // for choices
  struct Mark {
    std::int64_t step = 0;
    double waited = 0;
    SteadyClock::time_point at{};
  } mark_;                             // where what the next choice looks at begins
  std::vector<Parameter> parameters_;  // in the order of begin()
};

}  // namespace starling::dist
