#include "starling/ops/def/scope.h"

#include <unordered_map>

#include "starling/base/thread_context.h"
#include "starling/ops/def/loop_scope.h"
#include "starling/ops/def/random_sites.h"

namespace starling {
namespace {

using Counts = std::unordered_map<const std::string*, std::int64_t>;

thread_local Counts counts;  // owned by the thread: scopes put their own in its place

void set_scope(Symbol scope) { thread_context().scope = &scope.str(); }

}  // namespace

NameScope::NameScope(const std::string& name) : before_(current_scope()) {
  set_scope(Symbol(before_.empty() ? name : before_.str() + "/" + name));
}
NameScope::~NameScope() { set_scope(before_); }

Symbol current_scope() {
  const std::string* path = thread_context().scope;
  return path ? Symbol::interned(*path) : Symbol();
}

std::int64_t next_random_site() {
  const Symbol scope = current_scope();
  const auto call = counts[&scope.str()]++;
  std::uint64_t hash = 1469598103934665603ull;
  for (char c : scope.str() + "#" + std::to_string(call))
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return static_cast<std::int64_t>(hash >> 1);
}

std::string next_control_name(std::string_view kind) {
  const Symbol path(current_scope().str() + "/" + std::string(kind));
  return std::string(kind) + std::to_string(counts[&path.str()]++);
}

SiteCounts::SiteCounts() : before_(new Counts(std::move(counts))) { counts.clear(); }
SiteCounts::~SiteCounts() {
  auto* before = static_cast<Counts*>(before_);
  counts = std::move(*before);
  delete before;
}
void SiteCounts::reset() { counts.clear(); }

std::map<std::string, std::int64_t> random_site_counts() {
  std::map<std::string, std::int64_t> all;
  for (const auto& [path, calls] : counts) all.emplace(*path, calls);
  return all;
}

void set_random_site_counts(const std::map<std::string, std::int64_t>& given) {
  counts.clear();
  for (const auto& [path, calls] : given) {
    const Symbol scope(path);  // interned: the string lives as long as the process
    counts[&scope.str()] = calls;
  }
}

SitePoint::SitePoint() : scope_(current_scope()), counts_(std::make_shared<const Counts>(counts)) {}

SiteReplay::SiteReplay(const SitePoint& point) {
  set_scope(point.scope_);
  counts = *static_cast<const Counts*>(point.counts_.get());
}
SiteReplay::~SiteReplay() {
  set_scope(before_.scope_);
  counts = *static_cast<const Counts*>(before_.counts_.get());
}

}  // namespace starling
