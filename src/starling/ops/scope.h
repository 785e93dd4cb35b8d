#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "starling/ops/symbol.h"

namespace starling {

// Where in the model ops are being applied: modules push their names, tracers copy the path onto nodes, and random ops
// derive their site from it, so that noise is the same whether code runs at once or compiled.
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

// A number for the next random call of this scope: a hash of its path and of how many calls came before it since the
// counts were reset. Optimizers reset them after each step, tracers while they trace.
std::int64_t next_random_site();

class SiteCounts {
 public:
  SiteCounts();  // counts from zero while it lives
  ~SiteCounts();
  SiteCounts(const SiteCounts&) = delete;
  SiteCounts& operator=(const SiteCounts&) = delete;
  static void reset();

 private:
  void* before_;
};

// The scope and the counts at one moment. While a SiteReplay of it lives, they go on from there: code run a second time
// draws the random numbers of the first.
class SitePoint {
 public:
  SitePoint();  // now

 private:
  friend class SiteReplay;
  Symbol scope_;
  std::shared_ptr<const void> counts_;
};

class SiteReplay {
 public:
  explicit SiteReplay(const SitePoint& point);
  ~SiteReplay();
  SiteReplay(const SiteReplay&) = delete;
  SiteReplay& operator=(const SiteReplay&) = delete;

 private:
  SitePoint before_;
};

}  // namespace starling
