#include "starling/ops/def/scope.h"

#include <unordered_map>

#include "starling/ops/def/loop_scope.h"

namespace starling {
namespace {

using Counts = std::unordered_map<const std::string*, std::int64_t>;

thread_local Symbol scope;
thread_local Counts counts;

}  // namespace

NameScope::NameScope(const std::string& name) : before_(scope) {
  scope = Symbol(before_.empty() ? name : before_.str() + "/" + name);
}
NameScope::~NameScope() { scope = before_; }

Symbol current_scope() { return scope; }

std::int64_t next_random_site() {
  const auto call = counts[&scope.str()]++;
  std::uint64_t hash = 1469598103934665603ull;
  for (char c : scope.str() + "#" + std::to_string(call))
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return static_cast<std::int64_t>(hash >> 1);
}

std::string next_control_name(std::string_view kind) {
  const Symbol path(scope.str() + "/" + std::string(kind));
  return std::string(kind) + std::to_string(counts[&path.str()]++);
}

SiteCounts::SiteCounts() : before_(new Counts(std::move(counts))) { counts.clear(); }
SiteCounts::~SiteCounts() {
  auto* before = static_cast<Counts*>(before_);
  counts = std::move(*before);
  delete before;
}
void SiteCounts::reset() { counts.clear(); }

SitePoint::SitePoint() : scope_(scope), counts_(std::make_shared<const Counts>(counts)) {}

SiteReplay::SiteReplay(const SitePoint& point) {
  scope = point.scope_;
  counts = *static_cast<const Counts*>(point.counts_.get());
}
SiteReplay::~SiteReplay() {
  scope = before_.scope_;
  counts = *static_cast<const Counts*>(before_.counts_.get());
}

}  // namespace starling
