#include <stdio.h>
#include <string.h>
#include <styx_test.h>

/* Where the cases are, seen from here. */
static void path(char *to, size_t size) {
    const char *here = __FILE__, *end = strstr(here, "c/tests/");
    snprintf(to, size, "%.*scases.tsv", (int)(end - here), here);
}

int main(void) {
    char line[4096], name[4096];
    path(name, sizeof name);
    FILE *cases = fopen(name, "r");
    if (!cases || !fgets(line, sizeof line, cases)) return perror(name), 1;
    int count = 0;
    while (fgets(line, sizeof line, cases)) {
        char *key = strtok(line, "\t"), *function = strtok(NULL, "\t"), *arguments = strtok(NULL, "\t"), *expected = strtok(NULL, "\n");
        const char *found = styx_test_call("c", key, function, arguments);
        /* Of a bare code, the message is the language's own. */
        bool bare = !strchr(expected, ':') && !strncmp(found, expected, strlen(expected)) && found[strlen(expected)] == ':';
        char what[8192];
        snprintf(what, sizeof what, "%s.%s%s", key, function, arguments);
        styx_test_same_at(name, ++count + 1, what, bare ? expected : found, expected);
    }
    fclose(cases);
    return styx_test_end() || count < 40;
}
