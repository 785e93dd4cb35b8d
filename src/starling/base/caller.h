#pragma once

#include <string>

#include "starling/base/source_location.h"

namespace starling {

// Tells the line of the user's program that is running, "train.py:12"; empty where it cannot tell.
using CallerSource = std::string (*)();

// Bindings of other languages set it once: every call of their users comes from the same line of C++. Null: none.
void set_caller_source(CallerSource source);

// Line of the user's program for error messages: that of the other language, else the given one of C++.
std::string caller(const SourceLocation& where);
std::string foreign_caller();  // line of the other language only; empty if there is none

}  // namespace starling
