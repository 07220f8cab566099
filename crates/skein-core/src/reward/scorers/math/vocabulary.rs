//! The words of mathematical answers: which commands, letters and units are known, and which mean the same.

/// The token of a single character.
pub fn character(c: char) -> Option<&'static str> {
    Some(match c {
        '(' => "(",
        ')' => ")",
        '[' => "[",
        ']' => "]",
        '{' => "{",
        '}' => "}",
        '|' => "|",
        '^' => "^",
        '_' => "_",
        '&' => "&",
        ',' | '，' => ",",
        ';' => ";",
        ':' | '：' => ":",
        '+' => "+",
        '-' | '−' => "-",
        '*' | '×' | '·' | '⋅' => "*",
        '/' | '÷' => "/",
        '!' => "!",
        '%' => "%",
        '\'' => "'",
        '=' => "=",
        '<' => "<",
        '>' => ">",
        '~' | '≈' => "~",
        '±' => "±",
        '≤' => "<=",
        '≥' => ">=",
        '≠' => "!=",
        '∈' => "in",
        '∪' => "∪",
        '∩' => "∩",
        '∖' => "∖",
        _ => return None,
    })
}

/// The token of a command that is an operator, a relation or a bracket.
pub fn command_sign(name: &str) -> Option<&'static str> {
    Some(match name {
        "le" | "leq" | "leqslant" => "<=",
        "ge" | "geq" | "geqslant" => ">=",
        "lt" => "<",
        "gt" => ">",
        "ne" | "neq" => "!=",
        "approx" => "~",
        "in" => "in",
        "cdot" | "times" => "*",
        "div" => "/",
        "pm" => "±",
        "mp" => "∓",
        "cup" => "∪",
        "cap" => "∩",
        "setminus" | "backslash" => "∖",
        "vert" | "lvert" | "rvert" | "mid" | "|" => "|",
        "colon" => ":",
        "%" => "%",
        "{" | "lbrace" => "\\{",
        "}" | "rbrace" => "\\}",
        "lbrack" => "[",
        "rbrack" => "]",
        "langle" | "lgroup" | "lparen" => "(",
        "rangle" | "rgroup" | "rparen" => ")",
        "lfloor" | "llcorner" => "⌊",
        "rfloor" | "lrcorner" => "⌋",
        "lceil" | "ulcorner" => "⌈",
        "rceil" | "urcorner" => "⌉",
        _ => return None,
    })
}

/// Commands that only change how things look.
#[rustfmt::skip]
pub fn is_decoration(name: &str) -> bool {
    matches!(
        name,
        "left" | "right" | "mleft" | "mright" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr"
            | "biggl" | "biggr" | "quad" | "qquad" | "enspace" | "displaystyle" | "textstyle" | "limits" | "angle"
            | "triangle" | "overrightarrow" | "vec" | "hline" | "," | ";" | ":" | " " | "$"
    )
}

/// Commands whose argument is text.
#[rustfmt::skip]
pub fn is_text_command(name: &str) -> bool {
    matches!(
        name,
        "text" | "mbox" | "textbf" | "textit" | "textrm" | "textnormal" | "mathrm" | "mathbf" | "mathit" | "mathsf"
            | "operatorname" | "mathcal"
    )
}

/// Greek letters, and letters that LaTeX has a command for.
#[rustfmt::skip]
pub fn is_greek(name: &str) -> bool {
    matches!(
        name,
        "alpha" | "beta" | "gamma" | "delta" | "epsilon" | "varepsilon" | "zeta" | "eta" | "theta" | "vartheta" | "iota"
            | "kappa" | "lambda" | "mu" | "nu" | "xi" | "rho" | "sigma" | "tau" | "upsilon" | "phi" | "varphi" | "chi"
            | "psi" | "omega" | "Omega" | "Delta" | "Gamma" | "Phi" | "Theta" | "Lambda" | "Xi" | "Pi" | "Sigma"
            | "Upsilon" | "Psi" | "ell"
    )
}

/// The name of a Greek letter that stands as itself.
#[rustfmt::skip]
pub fn greek_letter(c: char) -> Option<&'static str> {
    Some(match c {
        'α' => "alpha", 'β' => "beta", 'γ' => "gamma", 'δ' => "delta", 'ε' | 'ϵ' | 'Ɛ' | 'ɛ' => "epsilon",
        'ζ' => "zeta", 'η' => "eta", 'θ' | 'ϑ' => "theta", 'ι' => "iota", 'κ' => "kappa", 'λ' => "lambda", 'μ' => "mu",
        'ν' => "nu", 'ξ' => "xi", 'ρ' | 'ϱ' => "rho", 'σ' | 'ς' => "sigma", 'τ' => "tau", 'υ' => "upsilon",
        'φ' | 'ϕ' => "phi", 'χ' => "chi", 'ψ' => "psi", 'ω' => "omega", 'Γ' => "Gamma", 'Δ' => "Delta", 'Φ' => "Phi",
        'Ω' => "Omega", 'Θ' => "Theta", 'Λ' => "Lambda", 'Ξ' => "Xi", 'Π' => "Pi", 'Σ' => "Sigma", 'Υ' => "Upsilon",
        'Ψ' => "Psi",
        _ => return None,
    })
}

/// Functions and constants that are also known without a backslash.
#[rustfmt::skip]
pub fn is_bare_name(name: &str) -> bool {
    matches!(
        name,
        "sqrt" | "sin" | "cos" | "tan" | "cot" | "sec" | "csc" | "arcsin" | "arccos" | "arctan" | "sinh" | "cosh"
            | "tanh" | "log" | "ln" | "exp" | "gcd" | "lcm" | "max" | "min" | "abs" | "floor" | "ceil" | "pi"
    )
}

/// Words for a hundredth.
pub fn is_percent(word: &str) -> bool {
    matches!(word, "percent" | "percentage" | "pct")
}

/// Whether a word behind a number is a unit, which an answer may name or leave out; lower case.
pub fn is_unit(word: &str) -> bool {
    is_singular_unit(word) || word.strip_suffix('s').is_some_and(is_singular_unit)
}

#[rustfmt::skip]
fn is_singular_unit(word: &str) -> bool {
    matches!(
        word,
        "cm" | "mm" | "km" | "dm" | "kg" | "mg" | "lb" | "oz" | "ml" | "ft" | "in" | "yd" | "mi" | "hr" | "min" | "sec"
            | "ms" | "mph" | "kph" | "kmh" | "meter" | "metre" | "centimeter" | "centimetre" | "millimeter"
            | "kilometer" | "kilometre" | "mile" | "inch" | "inches" | "foot" | "feet" | "yard" | "gram" | "kilogram"
            | "pound" | "ounce" | "ton" | "liter" | "litre" | "gallon" | "second" | "minute" | "hour" | "day" | "week"
            | "month" | "year" | "degree" | "radian" | "dollar" | "cent" | "euro" | "yuan" | "unit" | "square" | "cubic"
            | "people" | "apple" | "point" | "time" | "way"
    )
}
