import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["pagedlab/viz/**/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      eqeqeq: "error",
      "id-denylist": ["error", "said", "told", "asked"], // names are nouns; tests/test_names.py holds it for Python
      "no-shadow": "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
