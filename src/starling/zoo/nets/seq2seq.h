#pragma once

#include <vector>

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"
#include "starling/nn/own_loss.h"
#include "starling/nn/sequence.h"

namespace starling::zoo {

struct Seq2SeqOptions {
  std::int64_t vocabulary = 32;         // of the source
  std::int64_t tokens = 24;             // longest source
  std::int64_t target_vocabulary = 48;  // including the three special ids below
  std::int64_t target_tokens = 24;      // longest target with its end token; decoding stops there
  std::int64_t width = 64;              // of both embeddings
  std::int64_t hidden = 128;            // units of the decoder, and of each direction of the encoder
  double dropout = 0;
  static Settings settings();
};

// Sequence-to-sequence model (Sutskever et al. 2014) with attention (Bahdanau et al. 2014, in Luong's form of 2015): a
// bidirectional LSTM encodes the source i64[n, s], another decodes the target i64[n, t], attending to the whole source
// at every step. Special ids: 0 pads and is ignored, 1 begins a target, 2 ends it. Targets are given without the begin
// token and with the end token.
//
// A call decodes greedily: source → ids i64[n, target_tokens], the end token included and zeros after it. The loss is
// the cross-entropy of the target's ids given those before them (teacher forcing).
class Seq2Seq : public nn::Module, public nn::OwnLoss {
 public:
  static constexpr std::int64_t kPadding = 0, kBegin = 1, kEnd = 2;

  explicit Seq2Seq(const Seq2SeqOptions& options = {});
  Outputs own_loss(std::span<const Tensor> fields) override;
  const Seq2SeqOptions& options() const { return options_; }

  // Interface for searches, which decode one step at a time.
  struct Memory {
    Tensor states;  // encoded source, [n, s, 2 · hidden]
    Tensor mask;    // bool [n, 1, s]: true at tokens, false at padding
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
  double length_penalty = 0;  // p: final scores are divided by lengthᵖ; 0: plain log-probability
};
struct Hypothesis {
  std::vector<std::int64_t> ids;  // without the end token
  double score = 0;               // log-probability with length penalty
};
// Beam search: the best targets found for every source i64[n, s], best first. The network should be in eval mode.
std::vector<std::vector<Hypothesis>> beam_search(Seq2Seq& net, const Tensor& source, const BeamOptions& options = {});

}  // namespace starling::zoo
