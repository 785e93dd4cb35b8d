#include "starling/graph/parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "starling/base/error.h"
#include "starling/graph/text_cursor.h"
#include "starling/graph/verifier.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr std::size_t kMostValues = 1'000'000;
constexpr int kDeepest = 32;  // nesting depth of bodies
constexpr std::int64_t kMostIndex = std::numeric_limits<int>::max();

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size();
}

class Parser {
 public:
  explicit Parser(std::string_view text) : at_(text) {
    check(text.size() <= kMostText, "[graph] expected a text of at most {} bytes, got {}", kMostText, text.size());
  }

  Graph run() {
    at_.expect("starling-graph");
    if (const auto version = at_.integer(0, kMostIndex); version != 1) at_.error("expected version 1, got {}", version);
    contents();
    if (!at_.at_end()) at_.error("expected nothing after 'return', got {}", at_.shown());
    verify(graph_, "parsing");
    return std::move(graph_);
  }

 private:
  void contents() {
    while (!at_.peek("return")) statement();
    at_.expect("return");
    if (!at_.at_end() && !at_.peek("}")) {
      do graph_.outputs.push_back(value());
      while (at_.take(","));
    }
    order_inputs();
  }

  // Parses a body, which has its own names and values.
  void body() {
    next_index(graph_.bodies.size(), "body");
    if (++depth_ > kDeepest) at_.error("expected bodies at most {} deep, got more", kDeepest);
    at_.expect("{");
    Graph outer = std::exchange(graph_, {});
    auto names = std::exchange(values_, {});
    contents();
    at_.expect("}");
    guarded([&] { verify(graph_, "parsing"); });
    auto inner = std::make_shared<const Graph>(std::exchange(graph_, std::move(outer)));
    values_ = std::move(names);
    graph_.bodies.push_back(std::move(inner));
    --depth_;
  }

  void statement() {
    if (at_.at_end()) at_.error("expected 'return', got the end of the text");
    if (at_.peek("%")) return node();
    const auto first = at_.word();
    if (first == "variable") return variable();
    if (first == "constant") return constant();
    if (first == "body") return body();
    if (first == "init") return init();
    if (first == "target") return target();
    call(first, {});
  }

  void next_index(std::size_t count, const char* what) {
    const auto index = at_.integer(0, kMostIndex);
    if (index != static_cast<std::int64_t>(count)) at_.error("expected {} {}, got {}", what, count, index);
  }

  void variable() {
    next_index(graph_.variables.size(), "variable");
    std::string name = at_.quoted();
    graph_.add_variable({std::move(name), type(), {}});
  }

  void init() {
    const auto index = at_.integer(0, kMostIndex);
    const auto count = static_cast<std::int64_t>(graph_.variables.size());
    if (index >= count) at_.error("expected the index of one of {} variables, got {}", count, index);
    auto& variable = graph_.variables[static_cast<std::size_t>(index)];
    if (variable.init >= 0) at_.error("expected one first value of variable {}, got a second", index);
    variable.init = value();
  }

  void target() {
    const std::string name = at_.quoted();
    const auto [it, fresh] = graph_.targets.try_emplace(name);
    if (!fresh) at_.error("expected a new target, got '{}' again", name);
    at_.expect("(");
    while (!at_.take(")")) {
      if (!it->second.empty()) at_.expect(",");
      it->second.push_back(node_ref());
    }
  }

  TensorType type() {
    const auto word = at_.word();
    const auto dtype = parse_dtype(word);
    if (!dtype) at_.error("expected a dtype, got '{}'", word);
    at_.expect("[");
    Shape shape;
    while (!at_.take("]")) {
      if (shape.rank() == kMaxRank) at_.error("expected rank of at most {}, got more", kMaxRank);
      if (!shape.empty()) at_.expect(",");
      shape.push_back(at_.integer(0, std::numeric_limits<std::int64_t>::max()));
    }
    guarded([&] { check_size(shape, size_of(*dtype), "type"); });
    return {*dtype, shape};
  }

  void constant() {
    next_index(graph_.constants.size(), "constant");
    const TensorType given = type();
    if (at_.take("null")) {
      graph_.constants.push_back(empty(given.shape, given.dtype, Device{DeviceKind::null, 0}));
      return;
    }
    at_.expect("{");
    if (is_float(given.dtype)) {
      const auto all =
          numbers<double>(given, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity());
      graph_.constants.push_back(from_doubles(all, given.shape, given.dtype));
    } else {
      graph_.constants.push_back(integers(given));
    }
  }

  // Smallest and largest value of a whole-number dtype below 64 bits, or of bool.
  static std::pair<std::int64_t, std::int64_t> range_of(DType dtype) {
    if (dtype == DType::boolean) return {0, 1};
    const auto bits = 8 * size_of(dtype);
    const bool is_signed = dtype == DType::i32 || dtype == DType::i16 || dtype == DType::i8;
    const std::int64_t values = std::int64_t{1} << bits;
    return is_signed ? std::pair{-values / 2, values / 2 - 1} : std::pair{std::int64_t{0}, values - 1};
  }

  Tensor integers(const TensorType& given) {
    using Wide = std::numeric_limits<std::int64_t>;
    if (given.dtype == DType::i64)
      return from_host<std::int64_t>(numbers<std::int64_t>(given, Wide::min(), Wide::max()), given.shape);
    if (given.dtype == DType::u64)
      return from_host<std::uint64_t>(numbers<std::uint64_t>(given, 0, ~std::uint64_t{0}), given.shape);
    const auto [least, most] = range_of(given.dtype);
    const auto all = numbers<std::int64_t>(given, least, most);
    return from_doubles(std::vector<double>(all.begin(), all.end()), given.shape, given.dtype);
  }

  // Parses the rest of a list in braces. Reserves no memory beyond the values in the text.
  template <class T>
  std::vector<T> numbers(const TensorType& given, T least, T most) {
    std::vector<T> all;
    while (!at_.take("}")) {
      if (!all.empty()) at_.expect(",");
      const auto text = at_.until(",}");
      T value{};
      if (!read_number(text, value) || value < least || value > most)
        at_.error("expected a value of {}, got '{}'", name(given.dtype), text);
      all.push_back(value);
    }
    if (static_cast<std::int64_t>(all.size()) != given.shape.numel()) {
      at_.error("expected {} values for {}, got {}", given.shape.numel(), to_string(given), all.size());
    }
    return all;
  }

  void node() {
    std::vector<std::string_view> names;
    do names.push_back(value_name());
    while (at_.take(","));
    at_.expect("=");
    call(at_.word(), names);
  }

  std::string_view value_name() {
    at_.expect("%");
    return at_.word();
  }

  ValueId value() {
    const auto name = value_name();
    const auto it = values_.find(name);
    if (it == values_.end()) at_.error("expected a value made above, got %{}", name);
    return it->second;
  }

  NodeId node_ref() {
    if (at_.take("#")) return static_cast<NodeId>(at_.integer(0, graph_.size() - 1));
    return graph_.value(value()).node;
  }

  // Parses the rest of a node's line after the op's name.
  void call(std::string_view op_name, const std::vector<std::string_view>& names) {
    const OpDef* op = op_registry().find(op_name);
    if (op == nullptr) at_.error("expected the name of an op, got '{}'", op_name);
    SmallVector<ValueId, 4> in;
    if (at_.take("(")) in = operands();
    if (op->variadic() && in.empty()) at_.error("expected operands of {}, got none", op->name);
    const Attrs attrs = attributes(*op);
    NodeId id = -1;
    guarded([&] { id = graph_.add(*op, {in.data(), in.size()}, attrs); });
    if (graph_.values().size() > kMostValues) at_.error("expected at most {} values, got more", kMostValues);
    annotations(id);
    name_results(id, names);
  }

  SmallVector<ValueId, 4> operands() {
    SmallVector<ValueId, 4> in;
    while (!at_.take(")")) {
      if (!in.empty()) at_.expect(",");
      in.push_back(value());
    }
    return in;
  }

  Attrs attributes(const OpDef& op) {
    Attrs attrs = Attrs::defaults(*op.attrs);
    if (!at_.take("{")) return attrs;
    bool first = true;
    while (!at_.take("}")) {
      if (!first) at_.expect(",");
      first = false;
      const auto field = at_.word();
      at_.expect("=");
      const auto text = at_.until(",}");
      guarded([&] { attrs.set(field, text); });
      check_sizes(attrs, *attrs.find(field));
    }
    return attrs;
  }

  // Rejects sizes whose products would overflow in inference.
  void check_sizes(const Attrs& attrs, const AttrField& field) {
    constexpr double kMostSize = 2147483648.0, kMostElements = 4.0e18;
    const auto magnitude = [](std::int64_t v) { return std::max(1.0, std::abs(static_cast<double>(v))); };
    if (field.kind == AttrKind::pair) {
      for (auto v : attrs.get<Pair>(field)) {
        if (magnitude(v) > kMostSize) at_.error("expected {} of at most 2^31, got {}", field.name, v);
      }
    }
    if (field.kind != AttrKind::ints) return;
    double product = 1;
    for (auto v : attrs.get<Shape>(field)) product *= magnitude(v);
    if (product > kMostElements) at_.error("expected {} that can be addressed, got {}", field.name, attrs.print(field));
  }

  void annotations(NodeId id) {
    if (at_.take("@")) graph_.node(id).scope = Symbol(at_.quoted());
    if (at_.take("origin=")) graph_.node(id).origin = node_ref();
    if (at_.take("after=")) {
      at_.expect("(");
      do graph_.node(id).after.push_back(node_ref());
      while (at_.take(","));
      at_.expect(")");
    }
    if (at_.take("lane=")) graph_.node(id).lane = lane();
    if (at_.take("device=")) graph_.node(id).device = device();
    graph_.node(id).pinned = at_.take("pinned");
  }

  Lane lane() {
    const auto word = at_.word();
    for (int number = 0; number < kMostCommLanes; ++number) {
      if (word == name(comm_lane(number))) return comm_lane(number);
    }
    for (int number = 0; number < kMostBranches; ++number) {
      if (word == name(compute_lane(number))) return compute_lane(number);
    }
    at_.error("expected lane compute or comm, got '{}'", word);
  }

  Device device() {
    std::string text(at_.word());
    if (at_.take(":")) text += ":" + std::string(at_.word());
    const auto device = parse_device(text);
    if (!device) at_.error("expected a device, got '{}'", text);
    return *device;
  }

  void name_results(NodeId id, const std::vector<std::string_view>& names) {
    const auto out = graph_.node(id).out;
    if (names.size() != out.size()) at_.error("expected names for {} results, got {}", out.size(), names.size());
    const bool typed = at_.take(":");
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!values_.emplace(names[i], out[i]).second) at_.error("expected a new name, got %{} again", names[i]);
      if (typed && i > 0) at_.expect(",");
      if (typed) result_type(graph_.value(out[i]));
    }
  }

  void result_type(Value& value) {
    const TensorType given = type();
    if (given != value.type) at_.error("expected {} as inferred, got {}", to_string(value.type), to_string(given));
    if (at_.take("<")) {
      do value.layouts.push_back(layout());
      while (at_.take(","));
      at_.expect(">");
    }
    if (at_.peek("\"")) value.name = Symbol(at_.quoted());
  }

  Layout layout() {
    if (at_.take("R")) return Layout::replicate();
    if (at_.take("S")) return split();
    at_.expect("P(");
    const auto word = at_.word();
    for (auto reduce : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::product}) {
      if (name(reduce) != word) continue;
      at_.expect(")");
      return Layout::partial(reduce);
    }
    at_.error("expected sum, mean, max, min or product, got '{}'", word);
  }

  Layout split() {
    Layout layout = Layout::split(static_cast<int>(at_.integer(0, kMaxRank - 1)));
    if (at_.take("*")) layout.blocks = static_cast<std::int16_t>(at_.integer(1, 4096));
    layout.gathered = at_.take("+");
    return layout;
  }

  // Sorts inputs by index.
  void order_inputs() {
    std::vector<ValueId> made;
    for (const Node& node : graph_.nodes()) {
      if (is_op(node, "input")) made.push_back(node.out[0]);
    }
    graph_.inputs.assign(made.size(), -1);
    for (ValueId id : made) {
      const auto index = source_index(graph_.maker(id));
      const bool free = index >= 0 && index < static_cast<std::int64_t>(made.size()) &&
                        graph_.inputs[static_cast<std::size_t>(index)] < 0;
      check(free, "[graph] expected inputs numbered from 0 without gaps, got index {} among {}", index, made.size());
      graph_.inputs[static_cast<std::size_t>(index)] = id;
    }
  }

  // Adds the line number to errors of the callee.
  template <class F>
  void guarded(F&& f) {
    try {
      f();
    } catch (const Error& error) {
      at_.error("{}", error.what());
    }
  }

  TextCursor at_;
  int depth_ = 0;
  Graph graph_;
  std::unordered_map<std::string_view, ValueId> values_;  // keys point into the text
};

}  // namespace

Graph parse_graph(std::string_view text) { return Parser(text).run(); }

}  // namespace starling::graph
