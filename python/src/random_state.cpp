#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "convert.h"
#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/scopes/random_sites.h"

namespace starling::python {
namespace {

using SiteNumbers = std::map<std::string, std::int64_t>;

// The seed, the steps since, and the calls since the last of them: numbers alone, so that it can be kept anywhere.
nb::dict random_state() {
  const Tensor key = to(default_generator().key(), kCpu);
  nb::dict state;
  state["seed"] = key.data<std::int64_t>()[0];
  state["step"] = key.data<std::int64_t>()[1];
  state["calls"] = nb::cast(random_site_counts());
  return state;
}

nb::object part_of_state(nb::dict state, const char* name) {
  if (!state.contains(name)) fail("[random] expected a state with seed, step and calls, got one without {}", name);
  return state[name];
}

void set_random_state(nb::dict state) {
  const std::int64_t key[2] = {nb::cast<std::int64_t>(part_of_state(state, "seed")),
                               nb::cast<std::int64_t>(part_of_state(state, "step"))};
  const auto calls = nb::cast<SiteNumbers>(part_of_state(state, "calls"));
  const Tensor own = default_generator().key();
  copy_into(own, to(from_host<std::int64_t>(key, {2}), own.device()));
  set_random_site_counts(calls);
}

}  // namespace

void bind_random_state(nb::module_& m) {
  m.def("random_state", &random_state,
        "Where the random numbers of this thread are: a dict of numbers, for set_random_state() here or in another "
        "process.");
  m.def("set_random_state", &set_random_state, nb::arg("state"),
        "Goes on with the random numbers as random_state() told, for programs too.");
}

}  // namespace starling::python
