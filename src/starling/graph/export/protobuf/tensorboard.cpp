#include "starling/graph/export/tensorboard.h"

#include <chrono>

#include "starling/base/error.h"
#include "starling/graph/export/naming.h"
#include "starling/graph/export/record_file.h"
#include "tensorboard.pb.h"

namespace starling::graph {
namespace {

namespace tb = ::starling::tensorboard;

tb::DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return tb::DT_DOUBLE;
    case DType::f32: return tb::DT_FLOAT;
    case DType::f16: return tb::DT_HALF;
    case DType::bf16: return tb::DT_BFLOAT16;
    case DType::i64: return tb::DT_INT64;
    case DType::i32: return tb::DT_INT32;
    case DType::i16: return tb::DT_INT16;
    case DType::i8: return tb::DT_INT8;
    case DType::u64: return tb::DT_UINT64;
    case DType::u32: return tb::DT_UINT32;
    case DType::u16: return tb::DT_UINT16;
    case DType::u8: return tb::DT_UINT8;
    case DType::boolean: return tb::DT_BOOL;
  }
  return tb::DT_INVALID;
}

std::string device_path(Device device) {
  const char* kind = device.kind == DeviceKind::cuda ? "GPU" : device.kind == DeviceKind::cpu ? "CPU" : "NULL";
  return fmt::format("/device:{}:{}", kind, device.index);
}

void set_shape(tb::TensorShapeProto& to, const Shape& shape) {
  for (auto size : shape) to.add_dim()->set_size(size);
}

tb::AttrValue value_of(const Attrs& attrs, const AttrField& field) {
  tb::AttrValue value;
  switch (field.kind) {
    case AttrKind::integer: value.set_i(attrs.get<std::int64_t>(field)); break;
    case AttrKind::real: value.set_f(static_cast<float>(attrs.get<double>(field))); break;
    case AttrKind::boolean: value.set_b(attrs.get<bool>(field)); break;
    case AttrKind::dtype: value.set_type(data_type(attrs.get<DType>(field))); break;
    case AttrKind::symbol: value.set_s(attrs.get<Symbol>(field).str()); break;
    case AttrKind::reduction: value.set_s(std::string(name(attrs.get<ReduceOp>(field)))); break;
    case AttrKind::ints:
      for (auto v : attrs.get<Shape>(field)) value.mutable_list()->add_i(v);
      break;
    case AttrKind::pair:
      for (auto v : attrs.get<Pair>(field)) value.mutable_list()->add_i(v);
      break;
    default: value.set_s(attrs.print(field));  // kinds without a TensorBoard equivalent
  }
  return value;
}

class GraphWriter {
 public:
  explicit GraphWriter(const Graph& graph) : graph_(graph), paths_(unique_paths(graph)) {}

  tb::GraphDef run() {
    tb::GraphDef def;
    def.mutable_versions()->set_producer(22);  // first version with everything used here
    for (NodeId id = 0; id < graph_.size(); ++id) node(id, *def.add_node());
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      tb::NodeDef& made = *def.add_node();
      made.set_name(fmt::format("output_{}", i));
      made.set_op("output");
      made.add_input(edge(graph_.outputs[i]));
      made.set_device(device_path(graph_.maker(graph_.outputs[i]).device));
    }
    return def;
  }

 private:
  const std::string& path(NodeId id) const { return paths_[static_cast<std::size_t>(id)]; }

  std::string edge(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.output == 0 ? path(value.node) : fmt::format("{}:{}", path(value.node), value.output);
  }

  void node(NodeId id, tb::NodeDef& made) const {
    const Node& node = graph_.node(id);
    made.set_name(path(id));
    made.set_op(node.op->name);
    for (ValueId in : node.in) made.add_input(edge(in));
    for (NodeId first : node.after) made.add_input("^" + path(first));
    made.set_device(device_path(node.device));
    auto& attrs = *made.mutable_attr();
    for (const auto& field : node.attrs.type().fields) attrs[std::string(field.name)] = value_of(node.attrs, field);
    if (!node.out.empty()) {
      auto& shapes = *attrs["_output_shapes"].mutable_list();
      for (ValueId out : node.out) set_shape(*shapes.add_shape(), graph_.value(out).type.shape);
      attrs["T"].set_type(data_type(graph_.value(node.out[0]).type.dtype));
    }
    if (node.origin >= 0) attrs["_origin"].set_s(path(node.origin));
    if (node.lane != Lane::compute) attrs["_lane"].set_s(std::string(name(node.lane)));
    if (is_op(node, "variable") || is_op(node, "assign"))
      attrs["_variable"].set_s(graph_.variables[static_cast<std::size_t>(source_index(node))].name);
  }

  const Graph& graph_;
  std::vector<std::string> paths_;
};

std::string record(const tb::Event& event) {
  std::string bytes;
  check(event.SerializeToString(&bytes), "[tensorboard] expected a graph of less than 2 GB, got more");
  return framed_record(bytes);
}

}  // namespace

bool has_tensorboard_export() { return true; }

std::string tensorboard_graph_def(const Graph& graph) {
  std::string def;
  check(GraphWriter(graph).run().SerializeToString(&def), "[tensorboard] expected a graph of less than 2 GB, got more");
  return def;
}

std::string to_tensorboard(const Graph& graph) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  tb::Event version, drawn;
  version.set_wall_time(now);
  version.set_file_version("brain.Event:2");
  drawn.set_wall_time(now);
  drawn.set_graph_def(tensorboard_graph_def(graph));
  return record(version) + record(drawn);
}

}  // namespace starling::graph
