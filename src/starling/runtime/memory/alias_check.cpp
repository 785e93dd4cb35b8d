#include "starling/runtime/memory/alias_check.h"

#include <map>
#include <tuple>

#include "starling/base/error.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/lowering/stored_values.h"
#include "starling/runtime/memory/symbolic_memory.h"
#include "starling/tensor/bytes.h"

namespace starling::runtime {
namespace {

constexpr int kNothing = -1;

// A value as its readers see it: bytes of a token, with shape and strides.
struct Seen {
  Content content;
  kernels::ArgDesc desc;
};

struct Range {
  const Address* address;
  std::int64_t begin, end;
  bool empty() const { return begin == end; }
  bool overlaps(const Range& other) const {
    return !empty() && !other.empty() && address->kind == other.address->kind &&
           (address->kind == Address::Kind::arena || address->index == other.address->index) && begin < other.end &&
           other.begin < end;
  }
};

// Range of bytes that a strided operand touches.
Range range_of(const Address& address, const kernels::ArgDesc& desc) {
  if (desc.shape.numel() == 0) return {&address, address.offset, address.offset};
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < desc.shape.rank(); ++i)
    (desc.strides[i] < 0 ? low : high) += (desc.shape[i] - 1) * desc.strides[i];
  const auto size = static_cast<std::int64_t>(size_of(desc.dtype));
  return {&address, address.offset + low * size, address.offset + (high + 1) * size};
}

class AliasCheck {
 public:
  explicit AliasCheck(const Executable& exe)
      : exe_(exe),
        graph_(exe.graph()),
        stored_(stored_values(graph_, exe.device())),
        seen_(graph_.values().size()),
        ran_(graph_.nodes().size()),
        next_token_(static_cast<int>(graph_.values().size())),
        ended_(static_cast<std::size_t>(exe.lanes())),
        arena_(static_cast<std::int64_t>(exe.arena_bytes()), kNothing) {
    for (const auto& variable : graph_.variables) {
      variables_.emplace_back(bytes_of(variable.type), next_token_);
      holds_.push_back({{next_token_++, 0}, kernels::dense(variable.type)});
    }
    for (graph::ValueId in : graph_.inputs) inputs_.emplace_back(in < 0 ? 0 : bytes_of(graph_.value(in).type), in);
    for (const auto& constant : graph_.constants) {
      constants_.emplace_back(bytes_of(constant.type()), next_token_);
      constant_tokens_.push_back(next_token_++);
    }
    for (graph::ValueId out : graph_.outputs) outputs_.emplace_back(bytes_of(graph_.value(out).type), kNothing);
  }

  void run() {
    for (; at_ < static_cast<int>(exe_.instructions().size()); ++at_) {
      for (; next_node_ <= now().node; ++next_node_) name_results(next_node_);
      step();
    }
    for (; next_node_ < graph_.size(); ++next_node_) name_results(next_node_);
    check_ends();
  }

 private:
  const Instruction& now() const { return exe_.instructions()[static_cast<std::size_t>(at_)]; }

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string what = fmt::format(format, std::forward<Args>(args)...);
    if (at_ >= static_cast<int>(exe_.instructions().size())) fail("[alias] after the last instruction: {}", what);
    const graph::Node& node = graph_.node(now().node);
    const std::string scope = node.scope.empty() ? "" : fmt::format(" @{}", node.scope.str());
    fail("[alias] instruction {} ({} for node {}, {}{}): {}", at_, now().op, now().node, node.op->name, scope, what);
  }

  SymbolicMemory& memory(const Address& address) {
    const auto index = static_cast<std::size_t>(address.index);
    switch (address.kind) {
      case Address::Kind::input: return inputs_[index];
      case Address::Kind::variable: return variables_[index];
      case Address::Kind::constant: return constants_[index];
      case Address::Kind::output: return outputs_[index];
      default: return arena_;
    }
  }

  static std::string describe(const Address& address, std::int64_t at) {
    constexpr const char* kinds[] = {"the arena", "input", "variable", "constant", "output"};
    const std::string kind = kinds[static_cast<int>(address.kind)];
    return address.kind == Address::Kind::arena ? fmt::format("byte {} of {}", at, kind)
                                                : fmt::format("byte {} of {} {}", at, kind, address.index);
  }
  std::string describe(const Content& content) const {
    if (content.token == kNothing) return "nothing of worth";
    if (content.token < static_cast<int>(seen_.size())) return fmt::format("byte {} of %{}", content.at, content.token);
    return fmt::format("byte {} of state or copy {}", content.at, content.token);
  }

  // Names the results of a node by the graph's semantics: views and reads are bytes of other values, the rest is new.
  void name_results(graph::NodeId id) {
    const graph::Node& node = graph_.node(id);
    if (is_op(node, "assign")) {
      ran_[static_cast<std::size_t>(id)] = true;
      const auto variable = static_cast<std::size_t>(source_index(node));
      holds_[variable] = {packed(seen(node.in[0])).content, kernels::dense(graph_.variables[variable].type)};
      return;
    }
    for (graph::ValueId out : node.out) seen(out) = {{out, 0}, stored(out)};
    if (is_op(node, "variable")) seen(node.out[0]) = holds_[static_cast<std::size_t>(source_index(node))];
    if (is_op(node, "constant"))
      seen(node.out[0]).content.token = constant_tokens_[static_cast<std::size_t>(source_index(node))];
    if (is_op(node, "identity")) seen(node.out[0]) = packed(seen(node.in[0]));
    ran_[static_cast<std::size_t>(id)] = is_source(node);
    if (is_op(node, "cast") && stored(node.in[0]) == stored(node.out[0])) {
      seen(node.out[0]) = seen(node.in[0]);
      ran_[static_cast<std::size_t>(id)] = true;
    }
    if (!node.out.empty() && stored_.is_joined(node.out[0])) ran_[static_cast<std::size_t>(id)] = true;
    if (!node.op->view) return;
    const Seen& base = seen(node.in[0]);
    const auto view = node.op->view({base.desc.shape, base.desc.strides, node.attrs});
    if (!view) return;
    const auto size = static_cast<std::int64_t>(size_of(base.desc.dtype));
    seen(node.out[0]) = {{base.content.token, base.content.at + view->offset * size},
                         {base.desc.dtype, view->shape, view->strides}};
    ran_[static_cast<std::size_t>(id)] = true;
  }

  // How a value lies in memory by the program's choice.
  kernels::ArgDesc stored(graph::ValueId id) const {
    return stored_.descs.empty() ? kernels::dense(graph_.value(id).type) : stored_.descs[static_cast<std::size_t>(id)];
  }

  Seen& seen(graph::ValueId id) { return seen_[static_cast<std::size_t>(id)]; }

  // The same elements packed densely: the same bytes if they were dense, a token of their own if not.
  Seen packed(const Seen& from) {
    const kernels::ArgDesc desc = kernels::dense({from.desc.dtype, from.desc.shape});
    if (from.desc.contiguous()) return {from.content, desc};
    std::vector<std::int64_t> key{from.content.token, from.content.at, from.desc.shape.rank()};
    for (auto n : from.desc.shape) key.push_back(n);
    for (auto n : from.desc.strides) key.push_back(n);
    const auto [it, fresh] = packed_.emplace(std::move(key), next_token_);
    next_token_ += fresh ? 1 : 0;
    return {{it->second, 0}, desc};
  }

  void step() {
    const Instruction& i = now();
    if (i.in.size() != i.in_desc.size() || i.out.size() != i.out_desc.size())
      error("expected a format for every operand");
    LaneClock start = start_clock();
    const Access access{static_cast<int>(i.lane), start[static_cast<std::size_t>(i.lane)], start};
    const graph::Node& node = graph_.node(i.node);
    check_overlaps(find_op(i.op));
    const bool is_copy = i.op == "identity";
    const Seen copied = is_copy ? copied_value(node) : Seen{};
    if (!is_copy) check_operands(node);
    for (std::size_t k = 0; k < i.in.size(); ++k) {
      const Range range = range_of(i.in[k], i.in_desc[k]);
      if (auto problem = memory(i.in[k]).read(range.begin, range.end, access))
        error("reads operand {} too early: {}", k, *problem);
    }
    const auto scratch = static_cast<std::int64_t>(i.plan->scratch_bytes);
    if (scratch > 0) overwrite({&i.scratch, i.scratch.offset, i.scratch.offset + scratch}, {kNothing, 0}, access);
    for (std::size_t k = 0; k < i.out.size(); ++k) {
      // Where results lie among each other, in a third value, each of them stands for the bytes that it spans.
      const auto result = [&]() -> Content {
        if (!stored_.is_piece(node.out[k])) return {node.out[k], 0};
        return {stored_.piece(node.out[k]).whole, stored_.piece(node.out[k]).offset};
      };
      const Content made = is_copy ? copied.content : result();
      overwrite(range_of(i.out[k], i.out_desc[k]), made, access);
    }
    if (!is_copy || is_op(node, "identity")) ran_[static_cast<std::size_t>(i.node)] = true;
    start[static_cast<std::size_t>(i.lane)] = access.position + 1;
    ended_[static_cast<std::size_t>(i.lane)].push_back(std::move(start));
  }

  // Instructions that have surely ended when this one starts, from its waits alone.
  LaneClock start_clock() const {
    const Instruction& i = now();
    const auto& own = ended_[static_cast<std::size_t>(i.lane)];
    LaneClock clock = own.empty() ? LaneClock(ended_.size(), 0) : own.back();
    for (const Wait& wait : i.waits) {
      const auto& other = ended_[static_cast<std::size_t>(wait.lane)];
      if (wait.count > static_cast<int>(other.size()))
        error("waits for {} instructions of {} where {} stand before it", wait.count, name(wait.lane), other.size());
      if (wait.count > 0) merge(clock, other[static_cast<std::size_t>(wait.count) - 1]);
    }
    return clock;
  }

  // Results must not overlap operands, unless the op may overwrite them in place; scratch overlaps nothing.
  void check_overlaps(const OpDef& op) const {
    const Instruction& i = now();
    std::vector<Range> in, out;
    for (std::size_t k = 0; k < i.in.size(); ++k) in.push_back(range_of(i.in[k], i.in_desc[k]));
    for (std::size_t k = 0; k < i.out.size(); ++k) out.push_back(range_of(i.out[k], i.out_desc[k]));
    const Range scratch{&i.scratch, i.scratch.offset,
                        i.scratch.offset + static_cast<std::int64_t>(i.plan->scratch_bytes)};
    for (std::size_t r = 0; r < out.size(); ++r) {
      for (std::size_t k = 0; k < in.size(); ++k) {
        if (!out[r].overlaps(in[k])) continue;
        const bool ordered = i.in_desc[k].contiguous() || i.in_desc[k] == i.out_desc[r];
        const bool same = out[r].begin == in[k].begin && out[r].end == in[k].end && ordered;
        const bool meant = op.inplace >= 0 && static_cast<std::size_t>(op.inplace) + r == k;
        const bool alike = op.inplace >= 0 && op.elementwise() && bytes_of(i.in_desc[k]) == bytes_of(i.out_desc[r]);
        if (!same || !(meant || alike)) error("writes result {} over operand {} while reading it", r, k);
      }
      for (std::size_t other = 0; other < r; ++other) {
        if (out[r].overlaps(out[other]) && !among_each_other(r, other))
          error("writes results {} and {} to one place", other, r);
      }
    }
    for (const auto& list : {in, out}) {
      for (const auto& range : list) {
        if (scratch.overlaps(range)) error("has scratch where an operand lies");
      }
    }
  }

  // True of results that are pieces of one value, whose elements lie between each other's.
  bool among_each_other(std::size_t a, std::size_t b) const {
    const graph::Node& node = graph_.node(now().node);
    if (now().op != node.op->name || !stored_.is_piece(node.out[a]) || !stored_.is_piece(node.out[b])) return false;
    const auto &one = stored_.piece(node.out[a]), &other = stored_.piece(node.out[b]);
    return one.whole == other.whole && one.offset != other.offset;
  }

  // Nothing if this operand holds that value, as it lies or packed densely; otherwise what it holds instead.
  std::optional<std::string> mismatch(std::size_t k, const Seen& wanted) {
    const Address& address = now().in[k];
    const kernels::ArgDesc& desc = now().in_desc[k];
    const Range range = range_of(address, desc);
    if (range.empty()) return std::nullopt;  // an empty tensor may lie anywhere
    if (range.begin < 0 || range.end > memory(address).bytes()) return "reads beyond the memory it names";
    const auto holds = [&](const Content& content) {
      return memory(address).differs(range.begin, range.end,
                                     {content.token, content.at + range.begin - address.offset});
    };
    const auto lies = desc == wanted.desc ? holds(wanted.content) : std::nullopt;
    if (desc == wanted.desc && !lies) return std::nullopt;
    const Seen copy = packed(wanted);
    const auto differs = desc == copy.desc ? holds(copy.content) : std::nullopt;
    if (desc == copy.desc && !differs) return std::nullopt;
    if (desc != wanted.desc && desc != copy.desc) return "reads in another format than the value has";
    const auto& [byte, found] = lies ? *lies : *differs;
    return fmt::format("{} holds {}", describe(address, byte), describe(found));
  }

  void check_operands(const graph::Node& node) {
    const Instruction& i = now();
    if (i.op != node.op->name || i.in.size() != node.in.size() || i.out.size() != node.out.size())
      error("expected the op and operands of its node");
    for (std::size_t k = 0; k < i.in.size(); ++k) {
      if (auto problem = mismatch(k, seen(node.in[k])))
        error("expected operand {} to be %{}, but {}", k, node.in[k], *problem);
    }
  }

  // Value moved by a copy: one of its node's operands or results.
  Seen copied_value(const graph::Node& node) {
    std::string problem = "there is none";
    for (const auto& values : {std::span<const graph::ValueId>(node.in.data(), node.in.size()),
                               std::span<const graph::ValueId>(node.out.data(), node.out.size())}) {
      for (graph::ValueId id : values) {
        const auto wrong = mismatch(0, seen(id));
        if (!wrong) return packed(seen(id));
        problem = *wrong;
      }
    }
    error("expected to copy an operand or result of the node, but {}", problem);
  }

  void overwrite(const Range& range, const Content& content, const Access& access) {
    const Address& address = *range.address;
    if (range.empty()) return;  // an empty tensor may lie anywhere
    if (address.kind == Address::Kind::input || address.kind == Address::Kind::constant)
      error("writes {}, which is not the program's to write", describe(address, range.begin));
    if (range.begin < 0 || range.end > memory(address).bytes()) error("writes beyond {}", describe(address, range.end));
    if (auto problem = memory(address).write(range.begin, range.end, content, access))
      error("writes {} too early: {}", describe(address, range.begin), *problem);
  }

  void check_ends() {
    for (graph::NodeId id = 0; id < graph_.size(); ++id) {
      if (!ran_[static_cast<std::size_t>(id)]) error("expected node {} ({}) to have run", id, graph_.node(id).op->name);
    }
    const auto expect = [&](const Address& address, const Seen& wanted) {
      const auto differs = memory(address).differs(0, memory(address).bytes(), wanted.content);
      if (differs)
        error("expected {} to hold {}, got {}", describe(address, differs->first), describe(wanted.content),
              describe(differs->second));
    };
    for (std::size_t k = 0; k < holds_.size(); ++k)
      expect({Address::Kind::variable, static_cast<int>(k), 0}, holds_[k]);
    for (std::size_t k = 0; k < graph_.outputs.size(); ++k)
      expect({Address::Kind::output, static_cast<int>(k), 0}, packed(seen(graph_.outputs[k])));
  }

  const Executable& exe_;
  const graph::Graph& graph_;
  StoredValues stored_;
  std::vector<Seen> seen_;
  std::vector<bool> ran_;
  int next_token_;
  std::map<std::vector<std::int64_t>, int> packed_;
  std::vector<std::vector<LaneClock>> ended_;  // by lane
  SymbolicMemory arena_;
  std::vector<SymbolicMemory> inputs_, variables_, constants_, outputs_;
  std::vector<Seen> holds_;  // expected value of each variable
  std::vector<int> constant_tokens_;
  graph::NodeId next_node_ = 0;
  int at_ = 0;
};

}  // namespace

void check_aliases(const Executable& executable) { AliasCheck(executable).run(); }

}  // namespace starling::runtime
