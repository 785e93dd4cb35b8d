#pragma once

#include <vector>

#include "starling/base/settings.h"
#include "starling/nn/module.h"
#include "starling/nn/own_loss.h"
#include "starling/nn/sequence.h"

namespace starling::zoo {

struct Seq2SeqOptions {
  std::int64_t vocabulary = 32;         // of the source
  std::int64_t tokens = 24;             // of a source
  std::int64_t target_vocabulary = 48;  // with the three below
  std::int64_t target_tokens = 24;      // of a target with its end; decoding stops there
  std::int64_t width = 64;              // of both embeddings
  std::int64_t hidden = 128;            // units of the decoder, and of the encoder in each direction
  double dropout = 0;
  static Settings settings();
};

// Sequences into sequences (Sutskever et al. 2014) with attention (Bahdanau et al. 2014, in Luong's form of 2015): a
// bidirectional LSTM reads the source i64[n, s], another writes the target i64[n, t], looking at all of the source at
// every step. Ids: 0 fills up short sequences and counts nowhere, 1 begins a target and 2 ends it. Targets are given
// without the beginning and with the end.
//
// Calling it decodes greedily: source → ids i64[n, target_tokens], the end included and zeros behind it. Its loss is
// the cross-entropy of the target's ids given those before them (teacher forcing).
class Seq2Seq : public nn::Module, public nn::OwnLoss {
 public:
  static constexpr std::int64_t kPadding = 0, kBegin = 1, kEnd = 2;

  explicit Seq2Seq(const Seq2SeqOptions& options = {});
  Outputs own_loss(std::span<const Tensor> fields) override;
  const Seq2SeqOptions& options() const { return options_; }

  // One step of decoding at a time, for searches.
  struct Memory {
    Tensor states;  // of the source, [n, s, 2 · hidden]
    Tensor mask;    // bool [n, 1, s]: where there is a token
  };
  struct State {
    Tensor h;  // [1, n, hidden]
    Tensor c;
  };
  std::pair<Memory, State> encode(const Tensor& source);
  // Previous ids i64[n, t] → logits [n, t, target_vocabulary] of the next ones, and the state after the last.
  std::pair<Tensor, State> decode(const Memory& memory, const State& state, const Tensor& previous);

 protected:
  Tensor forward(const Tensor& source) override;

 private:
  Seq2SeqOptions options_;
  std::shared_ptr<nn::Module> source_, target_, begin_h_, begin_c_, look_, mix_, head_, drop_;
  std::shared_ptr<nn::Recurrent> encoder_, decoder_;
};

struct BeamOptions {
  std::int64_t beams = 4;     // hypotheses kept at every step
  double length_penalty = 0;  // scores are divided by lengthᵖ at the end; 0: the probability alone decides
};
struct Hypothesis {
  std::vector<std::int64_t> ids;  // without the end
  double score = 0;               // log-probability, divided as the options say
};
// The best targets found for every source i64[n, s], best first. The network should be in eval mode.
std::vector<std::vector<Hypothesis>> beam_search(Seq2Seq& net, const Tensor& source, const BeamOptions& options = {});

}  // namespace starling::zoo
