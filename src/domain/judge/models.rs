//! Models: how much they hold, and what they cost where somebody said so. A price is never guessed.

use std::collections::BTreeMap;

/// What was said of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Model {
    /// How many tokens it holds, prompt and reply together.
    pub context_tokens: Option<usize>,
    /// The price of a million tokens read, in whatever currency prices are given.
    pub input_price: Option<f64>,
    /// The price of a million tokens written.
    pub output_price: Option<f64>,
}

/// Every model that something was said of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelTable {
    /// By the model's name, as it is asked for.
    pub models: BTreeMap<String, Model>,
    /// What models hold that the table says nothing of; `None` goes by what is known of their family.
    pub context_tokens: Option<usize>,
}

/// What is taken of a model that nothing is known of.
pub const USUAL_CONTEXT: usize = 128_000;

/// What well-known families hold, by how their names begin. A longer beginning stands before a shorter one.
const FAMILIES: [(&str, usize); 22] = [
    ("gpt-3.5", 16_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-32k", 32_000),
    ("gpt-4o", 128_000),
    ("gpt-4", 8_000),
    ("gpt-5", 400_000),
    ("o1-mini", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("claude", 200_000),
    ("gemini-1.0", 32_000),
    ("gemini", 1_000_000),
    ("mistral-small", 32_000),
    ("mistral-large", 128_000),
    ("mixtral", 32_000),
    ("llama-2", 4_000),
    ("llama-3.", 128_000),
    ("llama-3", 8_000),
    ("smollm2", 8_000),
    ("deepseek", 64_000),
];

impl ModelTable {
    /// How many tokens a model holds, prompt and reply together: what the table says of it, else of all, else what is known
    /// of its family, else 128,000.
    pub fn context_of(&self, model: &str) -> usize {
        let own = self.models.get(model).and_then(|model| model.context_tokens);
        own.or(self.context_tokens).or_else(|| family(model)).unwrap_or(USUAL_CONTEXT)
    }

    /// What a call cost; `None` where a price or a count is not known.
    pub fn cost(&self, model: &str, input_tokens: Option<i64>, output_tokens: Option<i64>) -> Option<f64> {
        let known = self.models.get(model)?;
        #[allow(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
        let priced = |tokens: Option<i64>, price: Option<f64>| Some(tokens? as f64 * price? / 1e6);
        Some(priced(input_tokens, known.input_price)? + priced(output_tokens, known.output_price)?)
    }
}

/// What a model's family holds. Names may come with whoever offers them: `openai/gpt-4o`.
fn family(model: &str) -> Option<usize> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    FAMILIES.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_wins_over_the_setting_for_all_and_that_over_the_family() {
        let mut table = ModelTable::default();
        assert_eq!(table.context_of("gpt-4o-mini"), 128_000);
        assert_eq!(table.context_of("gpt-4-0613"), 8_000);
        assert_eq!(table.context_of("anthropic/claude-sonnet-4"), 200_000);
        assert_eq!(table.context_of("my-own"), USUAL_CONTEXT);
        table.context_tokens = Some(32_000);
        assert_eq!(table.context_of("gpt-4o-mini"), 32_000);
        table.models.insert("gpt-4o-mini".into(), Model { context_tokens: Some(64_000), ..Model::default() });
        assert_eq!(table.context_of("gpt-4o-mini"), 64_000);
    }

    #[test]
    fn longer_beginnings_stand_before_shorter_ones() {
        for (index, (beginning, _)) in FAMILIES.iter().enumerate() {
            let shadowing = FAMILIES[..index].iter().find(|(earlier, _)| beginning.starts_with(earlier));
            assert_eq!(shadowing, None, "{beginning}");
        }
    }

    #[test]
    fn a_price_is_never_guessed() {
        let priced = Model { input_price: Some(0.15), output_price: Some(0.6), context_tokens: None };
        let half = Model { output_price: None, ..priced };
        let models = BTreeMap::from([("a".to_owned(), priced), ("b".to_owned(), half)]);
        let table = ModelTable { models, context_tokens: None };
        let cost = table.cost("a", Some(1_000_000), Some(500_000)).expect("a cost");
        assert!((cost - 0.45).abs() < 1e-12, "{cost}");
        assert_eq!(table.cost("a", None, Some(1)), None);
        assert_eq!(table.cost("b", Some(1), Some(1)), None);
        assert_eq!(table.cost("gpt-4o", Some(1), Some(1)), None);
    }
}
