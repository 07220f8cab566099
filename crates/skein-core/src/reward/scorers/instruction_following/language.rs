//! Which language a response is in.
//!
//! The published graders use langdetect, which is unseeded and can't be reproduced; the crate `whatlang` stands in for
//! it. A text whose language can't be told at all, such as one without letters, passes, as it does there. `whatlang` has
//! no Swahili, which its commonest words give away.

use std::collections::HashSet;

use whatlang::Lang;

use super::words::words;

/// ISO 639-1 codes of the languages that can be identified; langdetect's codes for Chinese start with `zh`.
const LANGUAGES: [(&str, Lang); 50] = [
    ("af", Lang::Afr),
    ("ar", Lang::Ara),
    ("bg", Lang::Bul),
    ("bn", Lang::Ben),
    ("ca", Lang::Cat),
    ("cs", Lang::Ces),
    ("cy", Lang::Cym),
    ("da", Lang::Dan),
    ("de", Lang::Deu),
    ("el", Lang::Ell),
    ("en", Lang::Eng),
    ("es", Lang::Spa),
    ("et", Lang::Est),
    ("fa", Lang::Pes),
    ("fi", Lang::Fin),
    ("fr", Lang::Fra),
    ("gu", Lang::Guj),
    ("he", Lang::Heb),
    ("hi", Lang::Hin),
    ("hr", Lang::Hrv),
    ("hu", Lang::Hun),
    ("id", Lang::Ind),
    ("it", Lang::Ita),
    ("ja", Lang::Jpn),
    ("kn", Lang::Kan),
    ("ko", Lang::Kor),
    ("lt", Lang::Lit),
    ("lv", Lang::Lav),
    ("mk", Lang::Mkd),
    ("ml", Lang::Mal),
    ("mr", Lang::Mar),
    ("ne", Lang::Nep),
    ("nl", Lang::Nld),
    ("no", Lang::Nob),
    ("pa", Lang::Pan),
    ("pl", Lang::Pol),
    ("pt", Lang::Por),
    ("ro", Lang::Ron),
    ("ru", Lang::Rus),
    ("sk", Lang::Slk),
    ("sl", Lang::Slv),
    ("sv", Lang::Swe),
    ("ta", Lang::Tam),
    ("te", Lang::Tel),
    ("th", Lang::Tha),
    ("tl", Lang::Tgl),
    ("tr", Lang::Tur),
    ("uk", Lang::Ukr),
    ("ur", Lang::Urd),
    ("vi", Lang::Vie),
];

/// A language that responses can be checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// One that `whatlang` identifies.
    Identified(Lang),
    /// Swahili.
    Swahili,
}

impl Language {
    /// The language of an ISO 639-1 code; none if it can't be identified.
    pub fn of_code(code: &str) -> Option<Self> {
        match code {
            "sw" => Some(Self::Swahili),
            "zh" | "zh-cn" | "zh-tw" => Some(Self::Identified(Lang::Cmn)),
            _ => LANGUAGES.iter().find(|(known, _)| *known == code).map(|&(_, lang)| Self::Identified(lang)),
        }
    }

    /// Whether a text is in this language, or in none that can be told.
    pub fn is_language_of(self, text: &str) -> bool {
        match self {
            Self::Identified(lang) => whatlang::detect(text).is_none_or(|found| found.lang() == lang),
            Self::Swahili => is_swahili(text),
        }
    }
}

/// Swahili's commonest words, without those that are common in other languages too.
const SWAHILI_WORDS: &str = "hii hiyo huu hiki hizi hizo huyu hao hilo hivyo kwa katika kwamba kama kuwa kwenye kutoka \
    kuhusu kila kisha lakini mimi wewe yeye sisi nyinyi wao wangu yangu yako yake yetu wetu zao ambao ambayo ambaye \
    baada kabla pia sana tu bado hapa hapo leo sasa wakati watu mtu siku nini nani wapi ndiyo hapana asante habari \
    karibu tafadhali ndani juu chini ni na ya wa za la cha vya si au ili";

/// A Swahili text of some length has about two such words in five.
const MIN_SWAHILI_SHARE: f64 = 0.15;

fn is_swahili(text: &str) -> bool {
    let common: HashSet<&str> = SWAHILI_WORDS.split_whitespace().collect();
    let (mut num_words, mut num_common) = (0u32, 0u32);
    for word in words(text).filter(|word| word.starts_with(char::is_alphabetic)) {
        num_words += 1;
        num_common += u32::from(common.contains(word.to_lowercase().as_str()));
    }
    num_words == 0 || f64::from(num_common) >= MIN_SWAHILI_SHARE * f64::from(num_words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(code: &str, text: &str) -> bool {
        Language::of_code(code).expect("a known code").is_language_of(text)
    }

    #[test]
    fn languages_are_told_apart() {
        let german = "Der Zug kommt heute leider erst am späten Abend an, weil die Strecke gesperrt ist.";
        let swahili = "Watoto wanacheza katika bustani, na wazazi wao wako nyumbani kwa sababu ya mvua.";
        let hindi = "आज मौसम बहुत अच्छा है और बच्चे पार्क में खेल रहे हैं।";
        for (code, text) in [("de", german), ("sw", swahili), ("hi", hindi), ("th", "วันนี้อากาศดีมาก")]
        {
            assert!(is(code, text), "{text}");
            assert!(!is("en", text), "{text}");
        }
        assert!(!is("de", swahili) && !is("sw", german) && !is("hi", german));
        assert_eq!(Language::of_code("xx"), None);
    }

    #[test]
    fn what_has_no_language_passes() {
        for text in ["", "12 + 3", "!"] {
            assert!(is("en", text) && is("sw", text), "{text}");
        }
    }
}
