#include "starling/zoo/zoo.h"

#include "starling/base/error.h"
#include "starling/base/nearest.h"
#include "starling/ops/loss.h"
#include "starling/ops/random.h"
#include "starling/ops/shape_ops.h"

namespace starling {
void register_zoo_nets(zoo::Table& into);  // generated
}

namespace starling::zoo {

const Table& nets() {
  static const Table table = [] {
    Table made;
    register_zoo_nets(made);
    return made;
  }();
  return table;
}

const Net& find(const std::string& name) {
  const auto it = nets().find(name);
  if (it != nets().end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [key, net] : nets()) known.push_back(key);
  const auto close = nearest(name, known);
  fail("[zoo] expected the name of a network, got '{}'{}", name,
       close.empty() ? "" : " (did you mean '" + close + "'?)");
}

Setting published(const Net& net) { return {{.classes = net.classes, .dropout = false}, net.sample, net.batch}; }

Batch random_batch(const Net& net, const Setting& setting, DType dtype) {
  Shape shape = setting.sample;
  shape.insert(0, setting.batch);
  const NetOptions& o = setting.options;
  const std::int64_t vocabulary = o.vocabulary > 0 ? o.vocabulary : net.vocabulary;
  const Tensor x = vocabulary > 0 ? randint(shape, {.high = vocabulary}) : normal(shape, {.dtype = dtype});
  const std::int64_t classes = net.label_per_token ? vocabulary : o.classes;
  return {x, randint(net.label_per_token ? shape : Shape{setting.batch}, {.high = classes})};
}

Tensor loss(const Tensor& logits, const Tensor& labels) {
  if (logits.rank() == 2) return cross_entropy(logits, labels);
  check(logits.rank() == 3, "[zoo] expected logits [n, classes] or [n, t, classes], got {}", to_string(logits.type()));
  return cross_entropy(reshape(logits, {-1, logits.size(2)}), reshape(labels, {-1}));
}

}  // namespace starling::zoo
