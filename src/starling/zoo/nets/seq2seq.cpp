#include "starling/zoo/nets/seq2seq.h"

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/nn/layers.h"
#include "starling/ops/api/arg_reduce.h"
#include "starling/ops/api/attention.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/masked.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/api/unary.h"
#include "starling/zoo/recipes.h"

namespace starling {

Settings zoo::Seq2SeqOptions::settings() {
  using O = Seq2SeqOptions;
  return {vocabulary_setting<O>(),
          tokens_setting<O>(),
          setting("target_vocabulary", &O::target_vocabulary, "number of ids of targets; from the data unless given",
                  {.min = 4, .max = 1e8}),
          setting("target_tokens", &O::target_tokens, "ids of a target with its end; from the data unless given",
                  {.min = 1, .max = 1e5}),
          setting("width", &O::width, "numbers for each id", {.min = 1, .max = 65536}),
          setting("hidden", &O::hidden, "units of the decoder, and of the encoder in each direction",
                  {.min = 1, .max = 65536}),
          dropout_setting<O>("share of the embeddings and of the decoder's outputs dropped while training")};
}

zoo::Seq2Seq::Seq2Seq(const Seq2SeqOptions& o) : options_(o) {
  const auto embedding = [&](const char* name, std::int64_t vocabulary) {
    return add_module(name, std::make_shared<nn::Embedding>(
                                nn::EmbeddingOptions{.vocabulary = vocabulary, .width = o.width, .stddev = 0.1}));
  };
  const auto lstm = [&](const char* name, bool both) {
    return add_module(name, std::make_shared<nn::Lstm>(nn::RecurrentOptions{
                                .in = o.width, .hidden = o.hidden, .bidirectional = both, .batch_first = true}));
  };
  const auto dense = [&](const char* name, std::int64_t in, std::int64_t out, bool bias = true) {
    return add_module(name, std::make_shared<nn::Linear>(nn::LinearOptions{.in = in, .out = out, .bias = bias}));
  };
  source_ = embedding("source", o.vocabulary);
  encoder_ = lstm("encoder", true);
  begin_h_ = dense("begin_h", 2 * o.hidden, o.hidden);
  begin_c_ = dense("begin_c", 2 * o.hidden, o.hidden);
  target_ = embedding("target", o.target_vocabulary);
  decoder_ = lstm("decoder", false);
  look_ = dense("look", o.hidden, 2 * o.hidden, false);
  mix_ = dense("mix", 3 * o.hidden, o.hidden);
  head_ = dense("head", o.hidden, o.target_vocabulary);
  drop_ = add_module("drop", std::make_shared<nn::Dropout>(o.dropout));
}

std::pair<zoo::Seq2Seq::Memory, zoo::Seq2Seq::State> zoo::Seq2Seq::encode(const Tensor& source) {
  check(source.rank() == 2 && source.dtype() == DType::i64, "[seq2seq] expected sources i64[n, s], got {}",
        to_string(source.type()));
  const Tensor there = not_equal(source, static_cast<double>(kPadding));
  const auto read = encoder_->run((*drop_)((*source_)(source)), {.lengths = sum(there, {.axes = {1}})});
  const auto both = [&](const Tensor& last) {  // [2, n, hidden] → [n, 2 · hidden]
    return reshape(transpose(last, {1, 0, 2}), {source.size(0), 2 * options_.hidden});
  };
  const auto begin = [&](nn::Module& layer, const Tensor& last) {
    return reshape(tanh(layer(both(last))), {1, source.size(0), options_.hidden});
  };
  return {{read.y, reshape(there, {source.size(0), 1, source.size(1)})},
          {begin(*begin_h_, read.h), begin(*begin_c_, read.c)}};
}

std::pair<Tensor, zoo::Seq2Seq::State> zoo::Seq2Seq::decode(const Memory& memory, const State& state,
                                                            const Tensor& previous) {
  const auto wrote = decoder_->run((*drop_)((*target_)(previous)), {.h = state.h, .c = state.c});
  const Tensor seen =
      scaled_dot_product_attention((*look_)(wrote.y), memory.states, memory.states, {.mask = memory.mask, .scale = 1});
  const Tensor mixed = tanh((*mix_)(concat({seen, wrote.y}, 2)));
  return {(*head_)((*drop_)(mixed)), {wrote.h, wrote.c}};
}

nn::OwnLoss::Outputs zoo::Seq2Seq::own_loss(std::span<const Tensor> fields) {
  check(fields.size() >= 2, "[seq2seq] expected sources and targets, got {} fields", fields.size());
  const Tensor& target = fields[1];
  const auto [memory, state] = encode(fields[0]);
  const std::int64_t n = target.size(0), t = target.size(1);
  const Tensor begin = full({n, 1}, kBegin, DType::i64);
  const Tensor previous = t > 1 ? concat({begin, narrow(target, 1, 0, t - 1)}, 1) : begin;
  const Tensor logits = decode(memory, state, previous).first;
  const Tensor loss =
      cross_entropy(reshape(logits, {n * t, logits.size(2)}), reshape(target, {n * t}), {.ignore_index = kPadding});
  const Tensor counts = not_equal(target, static_cast<double>(kPadding));
  return {.loss = loss,
          .prediction = logits,
          .target = where(counts, target, full({}, -1, DType::i64)),
          .weight = cast(sum(counts), DType::f32)};
}

Tensor zoo::Seq2Seq::forward(const Tensor& source) {
  const NoGrad no_grad;
  auto [memory, state] = encode(source);
  const Tensor none = full({source.size(0), 1}, kPadding, DType::i64);
  Tensor previous = full({source.size(0), 1}, kBegin, DType::i64);
  std::vector<Tensor> written;
  for (std::int64_t i = 0; i < options_.target_tokens; ++i) {
    const Tensor ended =
        logical_or(equal(previous, static_cast<double>(kEnd)), equal(previous, static_cast<double>(kPadding)));
    auto [logits, next] = decode(memory, state, previous);
    previous = where(ended, none, argmax(logits, {.axes = {2}}));
    state = next;
    written.push_back(previous);
  }
  return concat(written, 1);
}

void register_zoo_seq2seq(zoo::Table& table) {
  using O = zoo::Seq2SeqOptions;
  table.add_net<O>(
      "seq2seq", "Encoder-decoder: a bidirectional LSTM reads, another with attention writes.",
      {.batch = 64,
       .small = {.vocabulary = 9, .tokens = 6, .target_vocabulary = 8, .target_tokens = 5, .width = 6, .hidden = 10}},
      [](const O& o) {
        return zoo::Recipe{zoo::maker([o] { return zoo::Seq2Seq(o); }),
                           {{.sample = {o.tokens}, .below = o.vocabulary},
                            {.sample = {o.target_tokens}, .below = o.target_vocabulary}},
                           "seq2seq"};
      });
}

}  // namespace starling
