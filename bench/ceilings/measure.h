#pragma once

#include <dnnl.hpp>
#include <map>
#include <string>
#include <vector>

#include "layer.h"

namespace starling::ceilings {

struct Timing {
  graph::Pass pass;
  std::string implementation;  // the library's own name of the chosen kernel
  double ms;                   // processor time of the thread that used most: what a quiet machine would take
  double wall_ms;              // by the clock on the wall
  double bytes;                // everything the primitive reads and writes, once
};

// Others may use the machine too, so time is taken from the threads' own clocks, which stand still while a thread is
// not running; threads must then sleep, not spin, while they wait for each other (OMP_WAIT_POLICY=passive). Times every
// pass of a layer with `threads` threads; each repeats for `seconds`, once at least, and the fastest counts. Memory is
// warm.
std::vector<Timing> measure(const Layer& layer, int threads, double seconds);

}  // namespace starling::ceilings
