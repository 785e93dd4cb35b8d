#include "starling/dist/strategy/programs/rank_program.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/thread/as_rank.h"
#include "starling/dist/strategy/gradient_slots.h"
#include "starling/graph/passes/partition/rounds.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/bytes.h"

namespace starling::dist {
namespace {

// Arguments are split by rows; scalars are replicated.
std::vector<Layout> split_arguments(const graph::Graph& global, std::size_t arguments) {
  std::vector<Layout> layouts;
  for (std::size_t i = 0; i < arguments; ++i) {
    const bool rows = global.value(global.inputs[i]).type.shape.rank() > 0;
    layouts.push_back(rows ? Layout::split(0) : Layout::replicate());
  }
  return layouts;
}

// Marks the reads of gradient slots as terms of a sum, each rank's own, unless they are stored in pieces.
graph::Graph with_local_slots(graph::Graph global) {
  const std::vector<GradientSlot> slots = gradient_slots(global);
  const auto is_slot = [&](const Tensor& tensor) {
    return std::any_of(slots.begin(), slots.end(), [&](const GradientSlot& one) { return same(one.slot, tensor); });
  };
  for (graph::NodeId id = 0; id < global.size(); ++id) {
    const graph::Node& node = global.node(id);
    if (!graph::is_op(node, "variable") || !global.value(node.out[0]).layouts.empty()) continue;
    const Tensor& tensor = global.variables[static_cast<std::size_t>(graph::source_index(node))].tensor;
    if (tensor.defined() && is_slot(tensor)) global.value(node.out[0]).layouts = {Layout::partial()};
  }
  return global;
}

// Allocator of gradients: memory that other ranks can read, so that they are reduced in place.
std::shared_ptr<Allocator> arena_for(const runtime::Executable& executable, const Comm& comm) {
  return executable.device().kind == DeviceKind::cpu ? comm.arena() : nullptr;
}

runtime::InstanceOptions instance_options(const RankProgramOptions& options, std::shared_ptr<Allocator> arena) {
  const CommWorld world = options.world.comm ? options.world : CommWorld{options.comm, options.comm->rank()};
  return {.comm = world.comm, .rank = world.rank, .groups = world.groups, .arena_allocator = std::move(arena)};
}

}  // namespace

std::string split_group(const RankProgramOptions& options) {
  if (!options.world.comm || options.world.comm == options.comm) return {};
  for (const WorldGroup& group : options.world.groups) {
    if (group.comm == options.comm) return group.name.str();
  }
  fail("[rank_program] expected the communicator of one of the world's {} groups, got one of {} ranks that is none",
       options.world.groups.size(), options.comm->size());
}

graph::Graph cut_in_rounds(const graph::Graph& global, const graph::PassContext& context, const std::string& rounds) {
  if (context.world == 1) return global;
  const graph::Partitioner::Mesh along{.parts = context.world, .first = context.rank, .group = Symbol(context.group)};
  return in_rounds(graph::Partitioner(global, along, context.inputs).run(), context, rounds);
}

RankProgram::RankProgram(const graph::Graph& global, const Container& container, const runtime::BuildOptions& build,
                         const RankProgramOptions& options)
    : comm_(options.comm),
      context_{.world = options.comm->size(),
               .rank = options.comm->rank(),
               .group = split_group(options),
               .inputs = split_arguments(global, build.arguments),
               .shards = options.shards,
               .shard_order = options.shard_order,
               .program = build.program} {
  const graph::Graph given = options.local_gradients ? with_local_slots(global) : global;
  runtime::BuiltProgram built =
      options.rounds.empty()
          ? runtime::build_program(given, context_)
          : runtime::build_program(cut_in_rounds(given, context_, options.rounds), {.program = context_.program});
  reports_ = std::move(built.reports);
  instance_ = std::make_unique<runtime::Instance>(built.executable, container,
                                                  instance_options(options, arena_for(*built.executable, *comm_)));
  const graph::Graph& local = graph();
  for (graph::ValueId out : local.outputs)
    split_outputs_.push_back(!local.value(out).layouts.empty() && local.value(out).layouts[0].is_split());
}

void RankProgram::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const AsRank as(comm_->rank());
  try {
    instance_->run(inputs, outputs);
  } catch (const std::exception& e) {
    comm_->abort(e.what());
    throw;
  } catch (...) {
    comm_->abort("an exception of unknown type");
    throw;
  }
}

void RankProgram::expect_rows(std::span<const Tensor> inputs) const {
  for (std::size_t i = 0; i < std::min(inputs.size(), context_.inputs.size()); ++i) {
    const TensorType& wanted = graph().value(graph().inputs[i]).type;
    if (!splits_input(i) || inputs[i].type() == wanted) continue;
    fail("[allreduce] expected argument {} of rank {} of {} to be its rows, {}, got {}", i, comm_->rank(),
         comm_->size(), to_string(wanted), to_string(inputs[i].type()));
  }
}

std::vector<TensorType> RankProgram::output_types() const {
  std::vector<TensorType> types;
  for (graph::ValueId out : graph().outputs) types.push_back(graph().value(out).type);
  return types;
}

int threads_each(int asked, int ranks, const graph::ProgramOptions& program) {
  return asked > 0 ? asked : std::max(1, program.all_threads() / ranks);
}

}  // namespace starling::dist
