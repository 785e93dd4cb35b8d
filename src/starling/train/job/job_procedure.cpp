#include "starling/train/job/job_procedure.h"

#include <algorithm>

#include "starling/dist/strategy/servers/server_rule.h"
#include "starling/train/job/job_graph.h"

namespace starling::train {
namespace {

bool draws(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const graph::Node& node) { return node.op->random; }) ||
         std::ranges::any_of(graph.bodies, [](const auto& body) { return draws(*body); });
}

bool augments(const JobData& data) {
  return std::ranges::any_of(data.train_steps,
                             [](const TransformStep& step) { return step.batch || step.sample->random(); });
}

}  // namespace

std::vector<std::string> procedure_notes(const PreparedJob& prepared) {
  const Job& job = prepared.job;
  const auto rule = dist::server_rule(job.distribute.strategy.make());
  if (!rule || !rule->procedure) return {};
  const std::string& name = job.distribute.strategy.name;
  std::vector<std::string> notes{fmt::format(
      "{} searches by itself, a step and an epoch for each direction: the optimizer{} and data.batch are not "
      "used",
      name, job.schedule.kind ? ", the schedule" : "")};
  const auto warn = [&](const std::string& what) {
    notes.push_back(
        fmt::format("warning: {} compares losses of the same samples, and {} makes them another function "
                    "every time",
                    name, what));
  };
  if (augments(prepared.data)) warn("augmentation");
  if (prepared.data.splits.train && draws(trace_job(prepared, {.update = false})))
    warn("noise in the network or the loss (dropout, sampling)");
  if (job.train.precision != Precision::f32)
    notes.push_back(
        fmt::format("warning: {} tells points apart by small differences of the loss, which train.precision: "
                    "f32 alone keeps",
                    name));
  return notes;
}

}  // namespace starling::train
