#include "starling/ops/def/scopes/scope.h"

#include <unordered_map>

#include "starling/base/thread/thread_context.h"
#include "starling/ops/def/scopes/loop_scope.h"
#include "starling/ops/def/scopes/random_sites.h"

namespace starling {

// Calls so far by scope, whose path is interned.
struct SiteTable {
  std::unordered_map<const std::string*, std::int64_t> counts{};
};

namespace {

// Table of the innermost SiteCounts or SiteReplay; outside of them the thread's own, which is owned as a cache is.
SiteTable& sites() {
  thread_local SiteTable own;
  SiteTable* innermost = thread_context().sites;
  return innermost ? *innermost : own;
}

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
  const auto call = sites().counts[&scope.str()]++;
  std::uint64_t hash = 1469598103934665603ull;
  for (char c : scope.str() + "#" + std::to_string(call))
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return static_cast<std::int64_t>(hash >> 1);
}

std::string next_control_name(std::string_view kind) {
  const Symbol path(current_scope().str() + "/" + std::string(kind));
  return std::string(kind) + std::to_string(sites().counts[&path.str()]++);
}

SiteCounts::SiteCounts() : own_(std::make_unique<SiteTable>()), before_(thread_context().sites) {
  thread_context().sites = own_.get();
}
SiteCounts::~SiteCounts() { thread_context().sites = before_; }
void SiteCounts::reset() { sites().counts.clear(); }

std::map<std::string, std::int64_t> random_site_counts() {
  std::map<std::string, std::int64_t> all;
  for (const auto& [path, calls] : sites().counts) all.emplace(*path, calls);
  return all;
}

void set_random_site_counts(const std::map<std::string, std::int64_t>& given) {
  auto& counts = sites().counts;
  counts.clear();
  for (const auto& [path, calls] : given) {
    const Symbol scope(path);  // interned: the string lives as long as the process
    counts[&scope.str()] = calls;
  }
}

SitePoint::SitePoint() : scope_(current_scope()), sites_(std::make_shared<const SiteTable>(sites())) {}

SiteReplay::SiteReplay(const SitePoint& point)
    : own_(std::make_unique<SiteTable>(*point.sites_)), scope_(current_scope()), before_(thread_context().sites) {
  set_scope(point.scope_);
  thread_context().sites = own_.get();
}
SiteReplay::~SiteReplay() {
  set_scope(scope_);
  thread_context().sites = before_;
}

}  // namespace starling
