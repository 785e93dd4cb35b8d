#include "starling/runtime/lowering/stored_values.h"

#include <algorithm>
#include <optional>

#include "starling/kernels/storable.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::runtime {
namespace {

using graph::Node;
using graph::NodeId;
using graph::ValueId;
using kernels::ArgDesc;
using kernels::Storable;

class Storing {
 public:
  Storing(const graph::Graph& graph, Device device)
      : graph_(graph), device_(device), users_(graph.users()), fixed_(graph.values().size()) {
    widths_.resize(graph.values().size());
    made_.pieces.resize(graph.values().size());
    made_.joined.resize(graph.values().size());
    for (const auto& value : graph.values()) stored_.push_back(kernels::dense(value.type));
    for (ValueId id : graph.outputs) fixed_[at(id)] = true;
    for (const Node& node : graph.nodes()) {
      if (is_op(node, "assign")) fixed_[at(node.in[0])] = true;
    }
  }

  StoredValues run() {
    for (const Node& node : graph_.nodes()) {
      if (is_op(node, "concat") && node.device == device_) join(node);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (is_source(node) || node.device != device_) continue;
      if (node.op->view)
        follow(node);
      else
        store(node);
    }
    made_.descs = std::move(stored_);
    return std::move(made_);
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  void follow(const Node& node) {
    const ArgDesc& base = stored_[at(node.in[0])];
    const auto view = node.op->view({base.shape, base.strides, node.attrs});
    ArgDesc& out = stored_[at(node.out[0])];
    out.dtype = base.dtype;
    if (view) out = {base.dtype, view->shape, view->strides};
  }

  void store(const Node& node) {
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const ValueId out = node.out[i];
      if (fixed_[at(out)]) continue;
      stored_[at(out)].dtype = dtype_of(node, i);
      if (made_.is_piece(out))
        stored_[at(out)].strides = kernels::heads_last_strides(type(out).shape, widths_[at(out)]);
      else if (are_heads(node, i))
        stored_[at(out)].strides =
            kernels::heads_last_strides(type(out).shape, type(out).shape[1] * type(out).shape[3]);
      if (are_images(node, i)) stored_[at(out)].strides = kernels::channels_last_strides(type(out).shape);
    }
  }

  // True if the op's kernels say so of an operand or result.
  bool says(const Node& node, Storable::Which Storable::*which, std::size_t i, std::size_t count) const {
    const Storable* storable = kernels::find_storable(*node.op, device_.kind);
    return storable && storable->*which && (storable->*which)(i, count);
  }

  DType dtype_of(const Node& node, std::size_t i) const {
    const ValueId out = node.out[i];
    const DType typed = type(out).dtype;
    if (is_half(typed)) {
      const bool wide = says(node, &Storable::wide_out, i, node.out.size()) && all_readers(out, &Storable::wide_in);
      return wide ? DType::f32 : typed;
    }
    if (typed != DType::f32) return typed;
    if (is_op(node, "cast")) {
      const DType from = stored_[at(node.in[0])].dtype;
      return is_half(from) && all_readers(out, &Storable::narrow_in) ? from : typed;
    }
    if (!says(node, &Storable::narrow_out, i, node.out.size())) return typed;
    std::optional<DType> wanted;
    return all_cast(out, wanted) && wanted ? *wanted : typed;
  }

  // True if all readers, also of views, take the value as it would be stored.
  bool all_readers(ValueId id, Storable::Which Storable::*which) const {
    if (fixed_[at(id)]) return false;
    for (NodeId user : users_[at(id)]) {
      const Node& node = graph_.node(user);
      if (node.device != device_) return false;
      if (node.op->view) {
        if (!all_readers(node.out[0], which)) return false;
        continue;
      }
      for (std::size_t i = 0; i < node.in.size(); ++i) {
        if (node.in[i] == id && !says(node, which, i, node.in.size())) return false;
      }
    }
    return true;
  }

  // True if all readers, also of views, cast the value to one 16-bit float.
  bool all_cast(ValueId id, std::optional<DType>& wanted) const {
    if (fixed_[at(id)]) return false;
    for (NodeId user : users_[at(id)]) {
      const Node& node = graph_.node(user);
      if (node.device != device_) return false;
      if (node.op->view) {
        if (!all_cast(node.out[0], wanted)) return false;
        continue;
      }
      const DType to = node.out.empty() ? DType::f32 : type(node.out[0]).dtype;
      if (!is_op(node, "cast") || !is_half(to) || (wanted && *wanted != to)) return false;
      wanted = to;
    }
    return true;
  }

  bool are_images(const Node& node, std::size_t i) const {
    const Shape& shape = type(node.out[i]).shape;
    if (shape.rank() != 4 || shape.numel() == 0 || !says(node, &Storable::images_out, i, node.out.size())) return false;
    constexpr std::int64_t kChannels = 8;  // kernels take eight neighbours at a time
    if (shape[1] % kChannels != 0) return false;
    if (kernels::find_storable(*node.op, device_.kind)->prefers_images) return true;
    for (std::size_t k = 0; k < node.in.size(); ++k) {
      const ArgDesc& in = stored_[at(node.in[k])];
      const bool fits = !node.op->elementwise() && !is_op(node, "fused") && !is_op(node, "cast");
      if (!is_channels_last(in) || (!fits && in.shape != shape)) continue;
      if (says(node, &Storable::images_in, k, node.in.size())) return true;
    }
    return false;
  }

  // Heads that are read with their places and positions exchanged.
  bool are_heads(const Node& node, std::size_t i) const {
    const ValueId out = node.out[i];
    if (type(out).shape.rank() != 4 || type(out).shape.numel() == 0 ||
        !says(node, &Storable::heads_out, i, node.out.size()))
      return false;
    for (NodeId user : users_[at(out)]) {
      const Node& reader = graph_.node(user);
      if (is_op(reader, "transpose") && reader.attrs.as<op::TransposeAttrs>().order == Shape{0, 2, 1, 3}) return true;
    }
    return false;
  }

  // Elements of the dimensions from `axis` on.
  static std::int64_t columns_of(const Shape& shape, int axis) {
    std::int64_t columns = 1;
    for (int d = axis; d < shape.rank(); ++d) columns *= shape[d];
    return columns;
  }

  // Heads whose columns a concat puts beside each other lie in its result.
  void join(const Node& concat) {
    const ValueId whole = concat.out[0];
    const TensorType& joined = type(whole);
    const int axis = normalize_axis(concat.attrs.as<op::AxisAttrs>().axis, joined.shape.rank(), "concat");
    constexpr std::int64_t kBytes = 16;  // kernels take so many at a time
    const auto size = static_cast<std::int64_t>(size_of(joined.dtype));
    if (fixed_[at(whole)] || joined.shape.numel() == 0 || !is_half(joined.dtype) ||
        dtype_of(concat, 0) != joined.dtype || columns_of(joined.shape, axis) * size % kBytes != 0)
      return;
    std::vector<std::pair<ValueId, std::int64_t>> parts;
    std::int64_t offset = 0;
    for (const ValueId operand : concat.in) {
      const ValueId root = root_of_part(operand, joined, columns_of(joined.shape, axis));
      const bool twice = std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.first == root; });
      if (root < 0 || twice || offset % kBytes != 0) return;
      parts.push_back({root, offset});
      offset += columns_of(type(operand).shape, axis) * size;
    }
    for (const auto& [root, from] : parts) {
      made_.pieces[at(root)] = {whole, from};
      widths_[at(root)] = columns_of(joined.shape, axis);
    }
    made_.joined[at(whole)] = true;
  }

  // Heads whose only reader, by views, is this operand of a concat, and which lie as its columns if they are stored
  // apart; -1 if there are none.
  ValueId root_of_part(ValueId operand, const TensorType& whole, std::int64_t width) const {
    std::vector<const Node*> views;
    ValueId root = operand;
    for (;;) {
      if (fixed_[at(root)] || users_[at(root)].size() != 1) return -1;
      const Node& maker = graph_.node(graph_.value(root).node);
      if (is_source(maker) || maker.device != device_) return -1;
      if (!maker.op->view) break;
      views.push_back(&maker);
      root = maker.in[0];
    }
    const Node& maker = graph_.node(graph_.value(root).node);
    const auto i = static_cast<std::size_t>(std::find(maker.out.begin(), maker.out.end(), root) - maker.out.begin());
    const Shape& heads = type(root).shape;
    if (heads.rank() != 4 || type(root).dtype != whole.dtype || made_.is_piece(root) ||
        !says(maker, &Storable::heads_out, i, maker.out.size()) || dtype_of(maker, i) != whole.dtype)
      return -1;
    Shape shape = heads, strides = kernels::heads_last_strides(heads, width);
    for (auto view = views.rbegin(); view != views.rend(); ++view) {
      const auto seen = (*view)->op->view({shape, strides, (*view)->attrs});
      if (!seen || seen->offset != 0) return -1;
      shape = seen->shape, strides = seen->strides;
    }
    return strides == contiguous_strides(whole.shape) ? root : -1;
  }

  const graph::Graph& graph_;
  Device device_;
  StoredValues made_;
  std::vector<std::int64_t> widths_;  // elements from one row to the next of values that are pieces
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> fixed_;
  std::vector<ArgDesc> stored_;
};

}  // namespace

StoredValues stored_values(const graph::Graph& graph, Device device) {
  if (device.kind != DeviceKind::cuda) return {};
  return Storing(graph, device).run();
}

}  // namespace starling::runtime
