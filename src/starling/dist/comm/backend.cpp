#include "starling/dist/comm/backend.h"

#include <fmt/format.h>

#include <algorithm>

namespace starling::dist {

void register_comm_backends(CommBackends& into);  // generated

std::string CommBackend::starters_text() const { return fmt::format("{}", fmt::join(starters, " or ")); }

void CommBackends::add(const CommBackend& backend) {
  for (const CommBackend& other : backends_) {
    check(other.name != backend.name, "[comm] expected a new backend, got '{}' again", backend.name);
    check(other.order != backend.order, "[comm] expected a place of its own for the backend '{}', got that of '{}'",
          backend.name, other.name);
  }
  const auto place = std::find_if(backends_.begin(), backends_.end(),
                                  [&](const CommBackend& other) { return other.order > backend.order; });
  backends_.insert(place, backend);
}

const CommBackends& comm_backends() {
  static const CommBackends backends = [] {
    CommBackends made;
    register_comm_backends(made);
    return made;
  }();
  return backends;
}

std::vector<std::string> backend_names(bool (*which)(const CommBackend&)) {
  std::vector<std::string> names;
  for (const CommBackend& backend : comm_backends().in_order()) {
    if (!backend.is_for_devices() && (which == nullptr || which(backend))) names.emplace_back(backend.name);
  }
  return names;
}

std::vector<std::string> device_backend_names() {
  std::vector<std::string> names;
  for (const CommBackend& backend : comm_backends().in_order()) {
    if (backend.is_for_devices()) names.emplace_back(backend.name);
  }
  return names;
}

std::vector<std::string> backend_choices(bool (*which)(const CommBackend&)) {
  std::vector<std::string> names = backend_names(which);
  names.insert(names.begin(), "auto");
  return names;
}

std::string either(const std::vector<std::string>& names) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

bool for_launchers(const CommBackend& backend) { return !backend.brings_ranks(); }

const CommBackend* find_backend(std::string_view name) {
  if (name.empty() || name == "auto") return nullptr;
  for (const CommBackend& backend : comm_backends().in_order()) {
    if (backend.name == name && !backend.is_for_devices()) return &backend;
  }
  fail("[connect] expected a backend for processes, one of ({}), got '{}'", fmt::join(backend_choices(), ", "), name);
}

std::string BackendChoice::between_processes() const {
  const std::vector<std::string> devices = device_backend_names();
  return std::find(devices.begin(), devices.end(), name) == devices.end() ? name : "auto";
}

}  // namespace starling::dist

namespace starling::detail {
namespace {

// Names that a job can give.
std::vector<std::string> all_choices() {
  std::vector<std::string> names = dist::backend_choices();
  for (std::string& one : dist::device_backend_names()) names.push_back(std::move(one));
  return names;
}

}  // namespace

using dist::BackendChoice;

nlohmann::json SettingType<BackendChoice>::schema(SettingRange) { return choice_schema(all_choices()); }
BackendChoice SettingType<BackendChoice>::read(const ConfigNode& node, SettingRange) {
  const std::vector<std::string> names = all_choices();
  return {names.at(node.as_choice(names))};
}
nlohmann::json SettingType<BackendChoice>::json(const BackendChoice& value) { return value.name; }

}  // namespace starling::detail
