#pragma once

#include <string>

namespace troupe::model {

/// The text of setting `name` as it is spelled now: f32 and f16 for number types that were called fp32 and fp16. Other
/// texts stay as they are.
std::string current_spelling(const std::string& name, const std::string& text);

}  // namespace troupe::model
