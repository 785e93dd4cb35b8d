#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// Ops on a session's named queues (tensor/queue.h), for graphs only. They run in the order of application, are never
// merged, and block while the queue makes them wait. An element is one tensor or several.

// Results of type i64[] are the number of elements in the queue after the call.
Tensor enqueue(const std::string& queue, std::span<const Tensor> element);
Tensor enqueue(const std::string& queue, std::initializer_list<Tensor> element);
TensorList dequeue(const std::string& queue, const std::vector<TensorType>& types);
TensorList dequeue_many(const std::string& queue, std::int64_t n, const std::vector<TensorType>& types);
Tensor queue_size(const std::string& queue);
Tensor queue_close(const std::string& queue);

}  // namespace starling
