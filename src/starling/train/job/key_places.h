#pragma once

#include <string>
#include <vector>

#include "starling/base/config/config.h"

namespace starling::train {

// A setting of a job: the section it belongs to and its key there.
struct KeyPath {
  std::string section;
  std::string key;
  std::string path() const { return section + "." + key; }
};

// Where a key that some section does not know may belong: settings of that name or, where there are none, of the
// nearest one, likeliest first, at most two. The kinds that `top`, a job, chooses tell what their sections know; of a
// job that is nothing yet those of a job without choices.
std::vector<KeyPath> places_of(const std::string& key, const ConfigNode& top);

// Places where settings of exactly that name belong.
std::vector<KeyPath> places_named(const std::string& key, const ConfigNode& top);

// " (did you mean 'epochs' below 'train:'?)" for a key in the wrong section of a job, or set in one; " (an option of
// adam, not of sgd)" for one of another kind. Empty: no idea, or none better than what the error suggests itself.
std::string place_hint(const UnknownKey& error, const ConfigNode& top);

}  // namespace starling::train
