#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "starling/ops/def/symbol.h"

namespace starling {

struct SiteTable;

// Scope path of the model: modules push their names, tracers copy the path to nodes, and random ops derive their site
// from it, so that random numbers are the same eager and compiled.
class NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  Symbol before_{};
};

Symbol current_scope();  // "net/fc1", empty at the top

// Site of the next random call in this scope: a hash of its path and of the number of calls since the counts were
// reset. Optimizers reset them after each step, tracers when they trace.
std::int64_t next_random_site();

class SiteCounts {
 public:
  SiteCounts();  // counts from zero during its lifetime
  ~SiteCounts();
  SiteCounts(const SiteCounts&) = delete;
  SiteCounts& operator=(const SiteCounts&) = delete;
  static void reset();

 private:
  std::unique_ptr<SiteTable> own_;
  SiteTable* before_;
};

// Snapshot of the scope and the counts. During the lifetime of a SiteReplay they continue from there: code run a second
// time draws the same random numbers.
class SitePoint {
 public:
  SitePoint();  // captures the current state

 private:
  friend class SiteReplay;
  Symbol scope_;
  std::shared_ptr<const SiteTable> sites_;
};

class SiteReplay {
 public:
  explicit SiteReplay(const SitePoint& point);
  ~SiteReplay();
  SiteReplay(const SiteReplay&) = delete;
  SiteReplay& operator=(const SiteReplay&) = delete;

 private:
  std::unique_ptr<SiteTable> own_;
  Symbol scope_;
  SiteTable* before_;
};

}  // namespace starling
