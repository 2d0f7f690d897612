//! The tokens of a JSON text and their places.

use super::Place;

/// A part of a JSON text that makes a node or ends one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Scalar,
    List,
    Map,
    End,
}

/// Returns the tokens of `text`, which has to be JSON: of another text, some or none.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = (Place, Token)> {
    let mut letters = Letters {
        rest: text.chars(),
        next: Place::START,
    };
    std::iter::from_fn(move || letters.token())
}

struct Letters<'t> {
    rest: std::str::Chars<'t>,
    /// Where the next letter stands.
    next: Place,
}

// === impl Letters ===

impl Letters<'_> {
    fn token(&mut self) -> Option<(Place, Token)> {
        loop {
            let place = self.next;
            let token = match self.letter()? {
                '{' => Token::Map,
                '[' => Token::List,
                '}' | ']' => Token::End,
                '"' => {
                    self.skip_string();
                    Token::Scalar
                }
                letter if is_between(letter) => continue,
                _ => {
                    self.skip_word();
                    Token::Scalar
                }
            };
            return Some((place, token));
        }
    }

    fn skip_string(&mut self) {
        while let Some(letter) = self.letter() {
            match letter {
                '"' => return,
                '\\' => {
                    self.letter();
                }
                _ => {}
            }
        }
    }

    fn skip_word(&mut self) {
        let ends = |letter: char| is_between(letter) || matches!(letter, '}' | ']');
        while self.rest.clone().next().is_some_and(|letter| !ends(letter)) {
            self.letter();
        }
    }

    fn letter(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        self.next = match letter {
            '\n' => Place {
                line: self.next.line + 1,
                column: 1,
            },
            _ => Place {
                column: self.next.column + 1,
                ..self.next
            },
        };
        Some(letter)
    }
}

fn is_between(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n' | ',' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_place_of_their_first_letter() {
        let found: Vec<_> = tokens("{\"a\\\"}\": [1,\n true]}").collect();

        let at = |line, column, token| (Place { line, column }, token);
        assert_eq!(
            found,
            [
                at(1, 1, Token::Map),
                at(1, 2, Token::Scalar),
                at(1, 10, Token::List),
                at(1, 11, Token::Scalar),
                at(2, 2, Token::Scalar),
                at(2, 6, Token::End),
                at(2, 7, Token::End),
            ]
        );
    }
}
