#include "starling/ops/api/queue.h"

#include <charconv>

#include "starling/base/error.h"
#include "starling/base/text.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/queue.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

TensorType parse_type(std::string_view text, const char* who) {
  const auto open = text.find('[');
  const auto dtype = parse_dtype(text.substr(0, open));
  check(dtype && open != std::string_view::npos && text.back() == ']',
        "[{}] expected types like f32[784], i64[], got '{}'", who, text);
  TensorType type{*dtype, {}};
  std::string_view sizes = text.substr(open + 1, text.size() - open - 2);
  while (!trimmed(sizes).empty()) {
    const auto comma = sizes.find(',');
    const auto item = trimmed(sizes.substr(0, comma));
    std::int64_t size = -1;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), size);
    check(error == std::errc() && end == item.data() + item.size() && size >= 0 && type.shape.rank() < kMaxRank,
          "[{}] expected up to {} sizes of at least 0, got '{}'", who, kMaxRank, text);
    type.shape.push_back(size);
    sizes = comma == std::string_view::npos ? std::string_view() : sizes.substr(comma + 1);
  }
  check_size(type.shape, size_of(*dtype), who);
  return type;
}

std::string joined(const std::vector<TensorType>& types) {
  std::string text;
  for (const auto& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

void expect_queue(const InferCall& call, Symbol queue) {
  check(!queue.empty(), "[{}] expected the name of a queue, got none", call.op.name);
}

const TensorType kCount{DType::i64, {}};

Types infer_count(const InferCall& call) {
  expect_queue(call, call.attrs.as<op::QueueAttrs>().queue);
  return {kCount};
}

Types infer_enqueue(const InferCall& call) {
  check(!call.in.empty(), "[enqueue] expected the tensors of an element, got none");
  return infer_count(call);
}

Types infer_dequeue(const InferCall& call) {
  const auto& a = call.attrs.as<op::DequeueAttrs>();
  expect_queue(call, a.queue);
  Types out;
  for (const auto& type : op::parse_types(a.types.str(), "dequeue")) out.push_back(type);
  return out;
}

Types infer_dequeue_many(const InferCall& call) {
  const auto& a = call.attrs.as<op::DequeueManyAttrs>();
  expect_queue(call, a.queue);
  check(a.n >= 1, "[dequeue_many] expected at least one element, got n = {}", a.n);
  Types out;
  for (auto type : op::parse_types(a.types.str(), "dequeue_many")) {
    check(type.shape.rank() < kMaxRank, "[dequeue_many] expected elements of rank below {}, got {}", kMaxRank,
          to_string(type));
    type.shape.insert(0, a.n);
    out.push_back(type);
  }
  return out;
}

}  // namespace

std::vector<TensorType> op::parse_types(std::string_view text, const char* who) {
  std::vector<TensorType> types;
  check(!trimmed(text).empty(), "[{}] expected the types of an element, got none", who);
  while (true) {
    const auto close = text.find(']');
    check(close != std::string_view::npos, "[{}] expected types like f32[784], i64[], got '{}'", who, text);
    types.push_back(parse_type(trimmed(text.substr(0, close + 1)), who));
    text = trimmed(text.substr(close + 1));
    if (text.empty()) return types;
    check(text.front() == ',', "[{}] expected a comma between types, got '{}'", who, text);
    text.remove_prefix(1);
  }
}

Tensor enqueue(const std::string& queue, std::span<const Tensor> element) {
  return apply1(named_op<"enqueue">(), element, op::QueueAttrs{Symbol(queue)});
}
Tensor enqueue(const std::string& queue, std::initializer_list<Tensor> element) {
  return enqueue(queue, std::span(element.begin(), element.size()));
}
TensorList dequeue(const std::string& queue, const std::vector<TensorType>& types) {
  return apply(named_op<"dequeue">(), {}, op::DequeueAttrs{Symbol(queue), Symbol(joined(types))});
}
TensorList dequeue_many(const std::string& queue, std::int64_t n, const std::vector<TensorType>& types) {
  return apply(named_op<"dequeue_many">(), {}, op::DequeueManyAttrs{Symbol(queue), Symbol(joined(types)), n});
}
Tensor queue_size(const std::string& queue) {
  return apply(named_op<"queue_size">(), {}, op::QueueAttrs{Symbol(queue)})[0];
}
Tensor queue_close(const std::string& queue) {
  return apply(named_op<"queue_close">(), {}, op::QueueAttrs{Symbol(queue)})[0];
}

void register_ops_queue(OpRegistry& ops) {
  ops.add({.name = "enqueue",
           .doc = "Puts an element into a queue, waiting while it is full: how many it holds then.",
           .inputs = {"element..."},
           .outputs = {"size"},
           .attrs = &attr_type<op::QueueAttrs>(),
           .infer = infer_enqueue,
           .stateful = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "dequeue",
           .doc = "Takes the next element of a queue, waiting while it is empty.",
           .inputs = {},
           .outputs = {"element"},
           .attrs = &attr_type<op::DequeueAttrs>(),
           .infer = infer_dequeue,
           .stateful = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "dequeue_many",
           .doc = "Takes the next n elements of a queue, stacked along a new first axis.",
           .inputs = {},
           .outputs = {"elements"},
           .attrs = &attr_type<op::DequeueManyAttrs>(),
           .infer = infer_dequeue_many,
           .stateful = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "queue_size",
           .doc = "How many elements a queue holds.",
           .inputs = {},
           .outputs = {"size"},
           .attrs = &attr_type<op::QueueAttrs>(),
           .infer = infer_count,
           .stateful = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "queue_close",
           .doc = "Lets no more elements into a queue: how many are left in it.",
           .inputs = {},
           .outputs = {"size"},
           .attrs = &attr_type<op::QueueAttrs>(),
           .infer = infer_count,
           .stateful = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
