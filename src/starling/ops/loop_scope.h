#pragma once

#include <string>
#include <string_view>

#include "starling/tensor/tensor.h"

namespace starling {

// Where in control flow ops are being applied, so that random calls draw the same numbers eager and traced: each piece
// of control flow has a scope of its own name, within which calls are counted anew in every trip, and the trip goes
// into the key.

// The name of the next piece of control flow in this scope: "while0", "while1", …
std::string next_control_name(std::string_view kind);

// A trip (i64[]) of a loop whose body is being run or traced. Nests.
class TripScope {
 public:
  explicit TripScope(Tensor trip);
  ~TripScope();
  TripScope(const TripScope&) = delete;
  TripScope& operator=(const TripScope&) = delete;

 private:
  friend Tensor key_of_trip(const Tensor& key);
  Tensor trip_;
  TripScope* outer_;
};

// The key with the trips of all enclosing loops in it; outside of loops the key itself.
Tensor key_of_trip(const Tensor& key);
bool in_loop();

// While it lives, what is applied stands in no loop: a function being compiled means the same wherever it is called.
class OutsideLoops {
 public:
  OutsideLoops();
  ~OutsideLoops();
  OutsideLoops(const OutsideLoops&) = delete;
  OutsideLoops& operator=(const OutsideLoops&) = delete;

 private:
  TripScope* before_;
};

}  // namespace starling
