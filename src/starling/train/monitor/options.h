#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "starling/base/config/settings.h"

namespace starling {

// The section `monitor` of a job.
struct MonitorOptions {
  bool tensorboard = true;
  bool jsonl = true;
  std::int64_t scalars_every = 10;
  std::int64_t histograms_every = 500;
  std::int64_t images = 16;
  bool graph = true;
  std::vector<std::string> activations{};

  static Settings settings() {
    return {
        setting("tensorboard", &MonitorOptions::tensorboard, "write event files for TensorBoard into the run's folder"),
        setting("jsonl", &MonitorOptions::jsonl, "write log.jsonl, an event a line, into the run's folder"),
        setting("scalars_every", &MonitorOptions::scalars_every,
                "steps between two records of loss, learning rate and speed; losses are means over these steps",
                {.min = 1}),
        setting("histograms_every", &MonitorOptions::histograms_every,
                "steps between two records of weights, gradients, update ratios and activations; 0: none", {.min = 0}),
        setting("images", &MonitorOptions::images, "samples of the first batch shown as a picture; 0: none",
                {.min = 0, .max = 1024}),
        setting("graph", &MonitorOptions::graph, "show the graph of the compiled step"),
        setting("activations", &MonitorOptions::activations,
                "modules whose outputs get histograms, by patterns such as conv* or *"),
    };
  }
  friend bool operator==(const MonitorOptions&, const MonitorOptions&) = default;
};

}  // namespace starling
