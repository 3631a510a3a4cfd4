// The types of modules that servers can make, by name, with named options.

#pragma once

#include <string>

#include "actors/server/remote_module.hpp"
#include "troupe/remote_object.hpp"

namespace troupe::runtime {

/// Registers the programs' types, and the server's own module, with the servers of this process. Thread: any; may be
/// called repeatedly.
void register_modules();

/// Converts options to text for messages: each as a letter for its type, a colon and its value; optional ones with
/// their default are left out. Throws `error` if one is out of its limits, or not described.
msg::arguments to_text(const std::string& type, const detail::remote_options& options);
/// Sets the options of `all`. Throws `error` if one is unknown, malformed, given twice or out of its limits, or if a
/// required one is missing.
void from_text(const std::string& type, const msg::arguments& all, detail::remote_options& to);

}  // namespace troupe::runtime
