#include "model/setting_spelling.hpp"

namespace troupe::model {

std::string current_spelling(const std::string& name, const std::string& text) {
  const bool is_number_type = name == "row-dtype" || name == "wire-dtype" || name == "matmul-precision";
  if (is_number_type && text == "fp32") return "f32";
  if (is_number_type && text == "fp16") return "f16";
  return text;
}

}  // namespace troupe::model
