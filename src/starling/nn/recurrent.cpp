#include "starling/nn/recurrent.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/nn/init.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::nn {
namespace {

Tensor nth(std::span<const Tensor> xs, std::size_t i) { return i < xs.size() ? xs[i] : Tensor(); }
Tensor or_none(const Tensor* tensor) { return tensor ? *tensor : Tensor(); }

}  // namespace

Recurrent::Recurrent(Cell cell, const RecurrentOptions& o) : cell_(cell), options_(o) {
  check(o.in > 0 && o.hidden > 0 && o.layers > 0,
        "[recurrent] expected sizes of at least 1, got in {}, hidden {} and layers {}", o.in, o.hidden, o.layers);
  check(o.dropout >= 0 && o.dropout < 1, "[recurrent] expected dropout in [0, 1), got {}", o.dropout);
  check(!o.relu || cell == Cell::rnn, "[recurrent] expected relu in an Rnn only, got it in gates");
  const std::int64_t gates = cell == Cell::rnn ? 1 : cell == Cell::gru ? 3 : 4;
  const double bound = 1 / std::sqrt(static_cast<double>(o.hidden));
  const auto begin = [&](const Shape& shape) { return initial(shape, Init::uniform(-bound, bound)); };
  const std::int64_t directions = o.bidirectional ? 2 : 1;
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    const std::int64_t in = layer == 0 ? o.in : directions * o.hidden;
    for (std::int64_t d = 0; d < directions; ++d) {
      std::string suffix = layer == 0 && d == 0 ? "" : "_l" + std::to_string(layer);
      if (d == 1) suffix += "_reverse";
      Weights w{};
      w.w_ih = &add_parameter("w_ih" + suffix, begin({gates * o.hidden, in}));
      w.w_hh = &add_parameter("w_hh" + suffix, begin({gates * o.hidden, o.hidden}));
      if (o.bias) w.b_ih = &add_parameter("b_ih" + suffix, begin({gates * o.hidden}));
      if (o.bias) w.b_hh = &add_parameter("b_hh" + suffix, begin({gates * o.hidden}));
      weights_.push_back(w);
    }
  }
}

Tensor Recurrent::forward(const Tensor& x) { return Recurrent::forward_list({&x, 1})[0]; }

TensorList Recurrent::forward_list(std::span<const Tensor> xs) {
  if (xs.empty() || xs.size() > 4) fail("[{}] expected x and maybe h, c and lengths, got {} inputs", kind(), xs.size());
  std::vector<RnnWeights> weights;
  for (const auto& w : weights_) weights.push_back({*w.w_ih, *w.w_hh, or_none(w.b_ih), or_none(w.b_hh)});
  RnnOptions options{.batch_first = options_.batch_first,
                     .bidirectional = options_.bidirectional,
                     .dropout = options_.dropout > 0 && training() ? options_.dropout : 0,
                     .relu = options_.relu,
                     .lengths = nth(xs, 3),
                     .h0 = nth(xs, 1),
                     .c0 = nth(xs, 2)};
  const auto op = cell_ == Cell::rnn ? rnn : cell_ == Cell::gru ? gru : lstm;
  const RnnResult out = op(xs[0], weights, options);
  return cell_ == Cell::lstm ? TensorList{out.y, out.h, out.c} : TensorList{out.y, out.h};
}

RecurrentResult Recurrent::run(const Tensor& x, const RecurrentState& begin) {
  const TensorList out = (*this)({x, begin.h, begin.c, begin.lengths});
  return {out[0], out[1], out.size() > 2 ? out[2] : Tensor()};
}

Tensor RecurrentCell::forward(const Tensor& x) { return RecurrentCell::forward_list({&x, 1})[0]; }

TensorList RecurrentCell::forward_list(std::span<const Tensor> xs) {
  if (xs.empty() || xs.size() > 3) fail("[{}] expected x and maybe h and c, got {} inputs", kind(), xs.size());
  TensorList steps;
  for (const auto& x : xs) steps.push_back(x.defined() ? unsqueeze(x, {0}) : x);
  const TensorList out = Recurrent::forward_list({steps.data(), steps.size()});
  TensorList states;
  for (std::size_t i = 1; i < out.size(); ++i) states.push_back(squeeze(out[i], {0}));
  return states;
}

LastState::LastState(std::shared_ptr<Recurrent> layer, bool bidirectional)
    : layer_(add_module("layer", std::move(layer))), directions_(bidirectional ? 2 : 1) {}

Tensor LastState::forward(const Tensor& x) {
  const Tensor h = layer_->run(x).h;
  const std::int64_t count = h.size(0), n = h.size(1), hidden = h.size(2);
  const Tensor last = narrow(h, 0, count - directions_, directions_);
  return reshape(transpose(last, {1, 0, 2}), {n, directions_ * hidden});
}

}  // namespace starling::nn
