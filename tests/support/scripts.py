"""Hypothesis strategies for texts in many scripts, and queries that are likely to find them."""

from __future__ import annotations

import unicodedata

from hypothesis import strategies as st

_WORDS = (
    *("the", "refund", "order", "77", "Java", "JAVA", "running", "snake_case", "don't", "don"),
    *("café", "CAFÉ", "Straße", "STRASSE", "İstanbul", "istanbul", "\u0131s", "ﬁne", "Œuvre"),
    *("東京でJavaを学ぶ", "東京", "私はPythonを使う", "を学ぶ", "黒猫", "猫"),
    *("한국어로부산", "부산에", "살아요", "สวัสดี", "ครับ", "हिन्दी", "भाषा", "ਪੰਜਾਬੀ"),
    *("مرحبا", "بك", "مَرْحَبًا", "Какие", "ёлка", "ΣΑΣ", "σας", "ǅungla", "a\u0301", "é"),
    *("Kelvin \u212a", "x²", "Ⅷ", "①", "٣٤", "\U0001d4b3y", "🙂", "\u0301", "\u0307"),
)
_BETWEEN = (" ", " ", " ", "", "-", "_", "、", "\n", "\x00", "\u200b", "…")


def texts(max_words: int = 6) -> st.SearchStrategy[str]:
    """Generate texts of words that come again, in pieces, other cases and decomposed."""
    cased = st.sampled_from([str, str.lower, str.upper, str.title])
    forms = st.sampled_from(["NFC", "NFD"])
    word = st.builds(
        lambda text, case, form: unicodedata.normalize(form, case(text)),
        st.sampled_from(_WORDS) | st.text(max_size=4),
        cased,
        forms,
    )
    pairs = st.tuples(word, st.sampled_from(_BETWEEN))
    return st.lists(pairs, max_size=max_words).map(
        lambda found: "".join(part for pair in found for part in pair)
    )
