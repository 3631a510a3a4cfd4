#pragma once

#include <string>

namespace troupe::model {

/// Returns the current spelling of a setting's text: f32 and f16 for the former fp32 and fp16; else the text itself.
std::string current_spelling(const std::string& name, const std::string& text);

}  // namespace troupe::model
