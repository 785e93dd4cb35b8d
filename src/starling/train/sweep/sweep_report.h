#pragma once

#include <optional>
#include <string>

#include "starling/train/monitor/plot/figure.h"
#include "starling/train/sweep/sweep_run.h"

namespace starling::train {

// Trials as a table for the terminal, the best first. Trials that never began are left out.
std::string sweep_table(const SweepResult& result, const std::string& metric);

// Curves of the metric, and of the loss, over epochs for the best trials; nullopt if no trial has any.
std::optional<Figure> sweep_figure(const SweepResult& result, const std::string& metric);

}  // namespace starling::train
