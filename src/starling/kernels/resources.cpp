#include "starling/kernels/resources.h"

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"

namespace starling::kernels {

TensorQueue& Resources::queue(const std::string& name, const std::string& op) const {
  const auto it = queues.find(name);
  if (it != queues.end() && it->second) return *it->second;
  std::vector<std::string> known;
  for (const auto& [other, queue] : queues) known.push_back(other);
  const auto close = nearest(name, known);
  fail("[{}] expected one of {} queues of the session, got '{}'{}", op, queues.size(), name,
       close.empty() ? "" : " (did you mean '" + close + "'?)");
}

TensorQueue& Resources::queue(const std::string& name, const std::vector<TensorType>& types,
                              const std::string& op) const {
  TensorQueue& found = queue(name, op);
  check(found.types() == types, "[{}] expected elements ({}) as queue '{}' has, got ({})", op, to_string(found.types()),
        name, to_string(types));
  return found;
}

void ResourcePlan::run(const Launch&) const {
  fail(
      "[{}] expected to run in a session, which has queues by name, got a call outside of one or in a body of control "
      "flow",
      op_);
}

}  // namespace starling::kernels
