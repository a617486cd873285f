/* What has to be known of a JSON text before it is read by the engine, and after it was written by it. */
#include <string.h>

#include "engine.h"

bool json_is_utf8(slice text) {
    const unsigned char *at = (const unsigned char *)text.data, *end = at + text.length;
    while (at < end) {
        uint64_t eight;
        if (end - at >= 8 && (memcpy(&eight, at, 8), (eight & 0x8080808080808080) == 0)) {
            at += 8;
            continue;
        }
        unsigned char first = *at++;
        if (first < 0x80) continue;
        int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        if (first < 0xc2 || first > 0xf4 || end - at < more) return false;
        unsigned char second = *at;
        /* Too long a form, a surrogate, or beyond the last character. */
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
            (first == 0xf4 && second > 0x8f)) {
            return false;
        }
        for (; more; more--, at++) {
            if ((*at & 0xc0) != 0x80) return false;
        }
    }
    return true;
}

static bool is_digit(char of) {
    return of >= '0' && of <= '9';
}

bool json_is_small(slice text, int64_t *number) {
    if (!text.length || text.length > 15 || (text.length > 1 && text.data[0] == '0')) return false;
    *number = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (!is_digit(text.data[i])) return false;
        *number = *number * 10 + (text.data[i] - '0');
    }
    return true;
}

bool json_is_delicate(slice text) {
    size_t run = 0;
    bool in_exponent = false;
    for (size_t i = 0; i < text.length; i++) {
        char now = text.data[i];
        if (now == '"') {
            for (i++; i < text.length && text.data[i] != '"'; i++) {
                if (text.data[i] == '\\') i++;
            }
            run = 0;
        } else if (is_digit(now)) {
            if (++run >= (in_exponent ? 3 : 16)) return true;
        } else {
            /* A fraction has its own digits, all of which a double rounds: that is what decimals are read by. */
            in_exponent = now == 'e' || now == 'E' || (in_exponent && run == 0 && now == '+');
            run = 0;
        }
    }
    return false;
}

bool json_is_suspicious(slice text) {
    for (size_t i = 0; i + 1 < text.length; i++) {
        switch (text.data[i]) {
            case 'n':
                if (text.length - i >= 4 && memcmp(text.data + i, "null", 4) == 0) return true;
                break;
            case '{':
                if (text.data[i + 1] == '}') return true;
                break;
            case '\\':
                if (text.length - i >= 3 && memcmp(text.data + i, "\\ud", 3) == 0) return true;
                break;
        }
    }
    return false;
}
