#pragma once

#include <optional>
#include <string>

#include "starling/train/monitor/plot/figure.h"
#include "starling/train/sweep/sweep_run.h"

namespace starling::train {

// Trials as a table for the terminal, the best first. Trials that never began are left out. A table that is wider than
// so many columns loses seconds, loss and epochs; 0: any width.
std::string sweep_table(const SweepResult& result, const std::string& metric, std::size_t columns = 0);

// Sentence about the best trial, or about equal ones and how to tell them apart; empty: none was evaluated.
std::string best_text(const SweepResult& result, const std::string& metric);

// Curves of the metric, and of the loss, over epochs for the best trials; nullopt if no trial has any.
std::optional<Figure> sweep_figure(const SweepResult& result, const std::string& metric);

}  // namespace starling::train
