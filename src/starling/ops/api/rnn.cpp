#include "starling/ops/api/rnn.h"

#include <vector>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/rnn.h"
#include "starling/ops/def/recurrent.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

using recurrent::with_lengths;

// Arguments of one layer in one direction, and its results: the states of all steps and the last cell.
struct LayerCall {
  Tensor x;  // [t, n, in]
  RnnWeights w;
  Tensor h0, c0, lengths;
  bool reverse, relu;
};
struct LayerResult {
  Tensor hs;  // [t+1, n, h]
  Tensor cs;
};
using LayerFn = LayerResult (*)(const LayerCall&);

Tensor sum_of(const Tensor& a, const Tensor& b) { return !a.defined() ? b : (!b.defined() ? a : add(a, b)); }

LayerResult lstm_layer(const LayerCall& call) {
  const Tensor gx = linear(call.x, call.w.w_ih, sum_of(call.w.b_ih, call.w.b_hh));
  const TensorList out =
      apply(named_op<"lstm_layer">(), with_lengths({gx, call.w.w_hh, call.h0, call.c0}, call.lengths),
            op::LayerAttrs{call.reverse});
  return {out[0], out[1]};
}

// The recurrent bias of n is inside the product with r, so the two biases stay separate.
LayerResult gru_layer(const LayerCall& call) {
  const Tensor gx = linear(call.x, call.w.w_ih, call.w.b_ih);
  const Tensor b = call.w.b_hh.defined() ? call.w.b_hh : full({call.w.w_hh.shape()[0]}, 0.0, gx.dtype());
  const TensorList out = apply(named_op<"gru_layer">(), with_lengths({gx, call.w.w_hh, b, call.h0}, call.lengths),
                               op::LayerAttrs{call.reverse});
  return {out[0], {}};
}

LayerResult rnn_layer(const LayerCall& call) {
  const Tensor gx = linear(call.x, call.w.w_ih, sum_of(call.w.b_ih, call.w.b_hh));
  const TensorList out = apply(named_op<"rnn_layer">(), with_lengths({gx, call.w.w_hh, call.h0}, call.lengths),
                               op::RnnLayerAttrs{call.reverse, call.relu});
  return {out[0], {}};
}

struct Network {
  const char* who;
  LayerFn layer;
  bool has_cells;
};

void check_call(const Network& net, const Tensor& x, std::span<const RnnWeights> weights, const RnnOptions& o) {
  check(x.rank() == 3, "[{}] expected x [t, n, in], got {}", net.who, to_string(x.type()));
  const std::size_t directions = o.bidirectional ? 2 : 1;
  check(!weights.empty() && weights.size() % directions == 0,
        "[{}] expected weights of at least one layer, {} for each, got {}", net.who, directions, weights.size());
  check(o.dropout >= 0 && o.dropout < 1, "[{}] expected dropout in [0, 1), got {}", net.who, o.dropout);
  check(net.has_cells || !o.c0.defined(), "[{}] expected no c0: only an lstm has cells, got {}", net.who,
        o.c0.defined() ? to_string(o.c0.type()) : "none");
  for (const auto& w : weights) {
    check(w.w_ih.defined() && w.w_hh.defined() && w.w_hh.rank() == 2, "[{}] expected w_ih and w_hh [gates h, h]",
          net.who);
  }
}

// Initial state i of [layers · directions, n, h], or zeros.
Tensor initial(const Network& net, const Tensor& states, std::size_t i, std::size_t count, const Shape& shape,
               DType dtype) {
  if (!states.defined()) return full(shape, 0.0, dtype);
  const auto at = static_cast<std::int64_t>(i);
  const Shape whole{static_cast<std::int64_t>(count), shape[0], shape[1]};
  check(states.shape() == whole, "[{}] expected initial states {}, got {}", net.who, to_string(whole),
        to_string(states.type()));
  return reshape(slice(states, {.axis = 0, .begin = at, .end = at + 1}), shape);
}

Tensor stacked(const std::vector<Tensor>& states) {
  if (states.empty()) return {};
  std::vector<Tensor> rows;
  rows.reserve(states.size());
  for (const auto& s : states) rows.push_back(reshape(s, {1, s.shape()[0], s.shape()[1]}));
  return concat(rows, 0);
}

RnnResult run(const Network& net, const Tensor& input, std::span<const RnnWeights> weights, const RnnOptions& o) {
  check_call(net, input, weights, o);
  const std::size_t directions = o.bidirectional ? 2 : 1;
  Tensor x = o.batch_first ? transpose(input, {1, 0, 2}) : input;
  std::vector<Tensor> last, cells;
  for (std::size_t i = 0; i < weights.size(); i += directions) {
    if (i > 0 && o.dropout > 0) x = dropout(x, o.dropout);
    std::vector<Tensor> outputs;
    for (std::size_t d = 0; d < directions; ++d) {
      const RnnWeights& w = weights[i + d];
      const Shape shape{x.shape()[1], w.w_hh.shape()[1]};
      LayerCall call{x, w, initial(net, o.h0, i + d, weights.size(), shape, x.dtype()), {}, o.lengths, d == 1, o.relu};
      if (net.has_cells) call.c0 = initial(net, o.c0, i + d, weights.size(), shape, x.dtype());
      const LayerResult out = net.layer(call);
      outputs.push_back(recurrent::masked(recurrent::ends(out.hs, call.reverse), o.lengths));
      last.push_back(recurrent::last_state(out.hs, call.reverse));
      if (net.has_cells) cells.push_back(recurrent::last_state(out.cs, call.reverse));
    }
    x = directions == 1 ? outputs[0] : concat(outputs, 2);
  }
  return {o.batch_first ? transpose(x, {1, 0, 2}) : x, stacked(last), stacked(cells)};
}

}  // namespace

RnnResult lstm(const Tensor& x, std::span<const RnnWeights> weights, const RnnOptions& options) {
  return run({"lstm", lstm_layer, true}, x, weights, options);
}
RnnResult gru(const Tensor& x, std::span<const RnnWeights> weights, const RnnOptions& options) {
  return run({"gru", gru_layer, false}, x, weights, options);
}
RnnResult rnn(const Tensor& x, std::span<const RnnWeights> weights, const RnnOptions& options) {
  return run({"rnn", rnn_layer, false}, x, weights, options);
}

}  // namespace starling
