"""A job whose output a page must not believe: markup, colours, and what steers a terminal."""

import time

MARKUP = "<b>bold</b><img src=x onerror=alert(1)><script>alert(2)</script>"

if __name__ == "__main__":
    print(MARKUP)
    print("\x1b[31mred\x1b[0m \x1b[1;38;5;46mgreen\x1b[0m plain \x1b]0;title\x07\x1b[2Jend", flush=True)
    time.sleep(600)
