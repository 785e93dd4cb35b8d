// Pushes of a client: dense gradients, rows, and what codecs make of them.
#include <algorithm>
#include <utility>

#include "starling/dist/ps/client_state.h"
#include "starling/dist/ps/row_routes.h"
#include "starling/dist/ps/vectors.h"
#include "starling/ops/api/row_sparse.h"

namespace starling::dist::ps {
namespace {

// Columns of a matrix of f32, in memory of their own unless they are all of it.
Bytes columns(const Tensor& matrix, std::int64_t begin, std::int64_t count) {
  const std::int64_t rows = matrix.size(0), all = matrix.size(1);
  if (count == all) return share(matrix);
  const Tensor copy = empty({rows, count}, DType::f32);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(matrix.data<float>() + r * all + begin, count, copy.data<float>() + r * count);
  return share(copy);
}

Bytes bytes_of_numbers(const std::vector<std::int64_t>& numbers) {
  const auto copy = std::make_shared<const std::vector<std::int64_t>>(numbers);
  return {copy, reinterpret_cast<const std::byte*>(copy->data()), copy->size() * sizeof(std::int64_t)};
}

}  // namespace

Message Client::State::push_message(const PushOptions& push, Verb verb, const Key& key, const Bytes& rows,
                                    const Bytes& values) const {
  Message message{{.verb = verb,
                   .clock = push.clock,
                   .version = verb == Verb::push_pull ? seen[key.id] : read[key.id],
                   .weight = push.weight,
                   .lr = push.lr,
                   .slot = push.portions.empty() ? 0 : kOfPortions},
                  {}};
  message.parts.reserve(Message::kMostParts);
  if (rows.owner) message.parts.push_back(rows);
  message.parts.push_back(values);
  if (!push.portions.empty()) message.parts.push_back(bytes_of_numbers(push.portions));
  return message;
}

Client::Ticket Client::State::push(std::size_t tensor, const Tensor& gradient, const PushOptions& push, Verb verb,
                                   const ServerLinks::Answered& answered) {
  expect_type("gradient", tensor, gradient);
  if (is_row_sparse(gradient)) return push_rows(tensor, gradient, push, verb, answered);
  const Bytes all = share(gradient);
  return for_keys(tensor, answered,
                  [&](const Key& key) { return push_message(push, verb, key, {}, piece_of(all, key)); });
}

Client::Ticket Client::State::push_rows(std::size_t tensor, const Tensor& gradient, const PushOptions& push, Verb verb,
                                        const ServerLinks::Answered& answered) {
  check(keys.tensors()[tensor].by_rows, "[{}] expected a whole gradient of '{}', which is not cut by rows, got rows",
        who(), keys.tensors()[tensor].name);
  const RowRoutes routes(keys, tensor, rows_of(gradient));
  return for_keys(tensor, answered, [&](const Key& key) {
    return push_message(push, verb, key, routes.rows(key), routes.values(key, row_values(gradient)));
  });
}

Client::Ticket Client::push(std::size_t tensor, const Tensor& gradient, const PushOptions& options) {
  return state_->push(tensor, gradient, options, Verb::push, {});
}

Client::Ticket Client::push_pull(std::size_t tensor, const Tensor& gradient, const Tensor& into,
                                 const PushOptions& options) {
  state_->expect_type("tensor", tensor, into);
  return state_->push(tensor, gradient, options, Verb::push_pull, state_->into(into));
}

Client::Ticket Client::push(std::size_t tensor, const Tensor& gradient, const PushOptions& options,
                            CodedPushes& codec) {
  state_->expect_type("gradient", tensor, gradient);
  const Bytes all = share(gradient);
  return state_->for_keys(tensor, {}, [&](const Key& key) {
    const Bytes own = state_->piece_of(all, key);
    if (!codec.codes(key)) return state_->push_message(options, Verb::push, key, {}, own);
    const Bytes coded = codec.encode(key, reinterpret_cast<const float*>(own.data));
    Message message = state_->push_message(options, Verb::push, key, {}, coded);
    message.header.form = codec.form_of(key);
    return message;
  });
}

Client::Ticket Client::push_factors(std::size_t tensor, const Tensor& errors, const Tensor& inputs,
                                    const PushOptions& options) {
  const KeyTable& keys = state_->keys;
  check(tensor < keys.tensors().size() && errors.rank() == 2 && inputs.rank() == 2 &&
            errors.size(0) == inputs.size(0) &&
            keys.tensors()[tensor].type == TensorType{DType::f32, {errors.size(1), inputs.size(1)}},
        "[{}] expected the factors of a gradient of tensor {}, got {} and {}", state_->who(), tensor,
        to_string(errors.type()), to_string(inputs.type()));
  const Bytes all = share(inputs);
  return state_->for_keys(tensor, {}, [&](const Key& key) {
    const std::int64_t width = inputs.size(1);
    const Bytes own = columns(errors, key.begin / width, key.size / width);
    Message message = state_->push_message(options, Verb::push, key, own, all);
    message.header.form = kFactors;
    return message;
  });
}

Client::Ticket Client::push_kept(std::size_t tensor, const PushOptions& options, CodedPushes& codec) {
  const Ticket ticket = state_->links.new_ticket();
  for (const Key& key : state_->keys.keys_of(tensor)) {
    if (!codec.keeps(key)) continue;
    state_->send(key, state_->push_message(options, Verb::push, key, {}, codec.release(key)), ticket, {});
  }
  return ticket;
}

Client::Ticket Client::push_portion(int vector, std::int64_t portion, std::size_t tensor, const Tensor& gradient,
                                    double weight) {
  check(vector > 0 && vector < kMostVectors, "[{}] expected a vector in [1, {}), got {}", state_->who(), kMostVectors,
        vector);
  state_->expect_type("gradient", tensor, gradient);
  const Bytes all = share(gradient);
  return state_->for_keys(tensor, {}, [&](const Key& key) {
    return Message{{.verb = Verb::push, .clock = portion, .weight = weight, .slot = static_cast<std::uint32_t>(vector)},
                   {state_->piece_of(all, key)}};
  });
}

}  // namespace starling::dist::ps
